/** Who has signed in, and whether they may change what is everybody's. The daemon decides; pages only leave out what it refuses. */
import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { close, open } from "../overlays/open.js";
import { losesAnywhere } from "../ui/leave.js";
import { clearNotices, notify } from "../ui/notice.js";
import { failures } from "./acts.js";
import { currentSignIn, signOut, signedOut, type SignIn } from "./client.js";

const key = ["sign-in"];

/** identityOf tells users and what they may apart. */
export const identityOf = (now: SignIn | undefined) => now?.me && JSON.stringify(now.me);

/** forget takes from the page what it has of a user: whoever signs in next is not told of it. */
function forget(cache: QueryClient): void {
  close();
  clearNotices();
  failures.set(new Map());
  // Not removed: who looks at a query that is removed would wait for it for ever.
  void cache.resetQueries({ predicate: (query) => query.queryKey[0] !== key[0] });
}

/**
 * took notes what the daemon says of the sign-in. Of one that has ended it keeps who that was: what they have not saved stays
 * until they or another sign in.
 */
export function took(cache: QueryClient, now: SignIn): SignIn {
  const before = cache.getQueryData<SignIn>(key);
  const next = now.signed_in ? now : { ...now, me: before?.me };
  if (before?.me && identityOf(before) !== identityOf(next)) {
    signedOut.dispatchEvent(new Event("leave"));
    // Nothing of another user may be left, in whatever part of the page. It asks nobody once what was open has gone.
    if (now.signed_in) setTimeout(() => window.location.reload(), 100);
  }
  cache.setQueryData(key, next);
  return next;
}

/** useSignIn is what the daemon says of the sign-in. Without one it is asked again when the page gets the focus. */
export function useSignIn() {
  const cache = useQueryClient();
  return useQuery({
    queryKey: key,
    queryFn: async ({ signal }) => {
      const now = await currentSignIn();
      signal.throwIfAborted(); // it was asked before somebody signed out
      return took(cache, now);
    },
    staleTime: Infinity,
    refetchOnWindowFocus: ({ state }) => (state.data?.signed_in === false ? "always" : false),
  });
}

/** useSignInEnds has the page follow a sign-in that ends, or that is another's. */
export function useSignInEnds() {
  const cache = useQueryClient();
  useEffect(() => {
    const doubt = () => void cache.invalidateQueries({ queryKey: key });
    const left = () => {
      forget(cache);
      cache.setQueryData<SignIn>(key, (now) => now && { signed_in: false, ways: now.ways });
      doubt(); // also in place of what is being asked now
    };
    signedOut.addEventListener("doubt", doubt);
    signedOut.addEventListener("leave", left);
    return () => {
      signedOut.removeEventListener("doubt", doubt);
      signedOut.removeEventListener("leave", left);
    };
  }, [cache]);
}

export function useAdmin(): boolean {
  const { data } = useSignIn();
  return data?.me?.admin === true && data.me.read_only !== true;
}

/** Who has signed in, once that is known. */
export function useMe() {
  const { data } = useSignIn();
  return data?.me;
}

/** Whether who has signed in uses the daemon's own key, which alone gives the right to look into what others have. */
export function useOperator(): boolean {
  const me = useMe();
  return useAdmin() && me?.user === undefined;
}

/** useOwn gives what says whether a session is one's own: of others an admin sees it, stops it and deletes it. */
export function useOwn(): (session: { owner?: string | undefined }) => boolean {
  const owner = useMe()?.owner;
  return (session) => !session.owner || session.owner === owner;
}

/** Whether who has signed in may change anything at all. */
export function useWriter(): boolean {
  const { data } = useSignIn();
  return data?.me !== undefined && data.me.read_only !== true;
}

/** leave signs out, and asks first where that loses something. */
export const leave = async () => ((await losesAnywhere()) ? open({ kind: "leave" }) : leaveNow());

/** leaveNow signs out. */
export const leaveNow = () => signOut().catch((err: unknown) => void notify({ text: "Signing out has failed", problems: [err instanceof Error ? err.message : String(err)] }));
