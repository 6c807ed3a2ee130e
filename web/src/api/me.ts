/** Whether who has signed in may change what is everybody's. The daemon decides; pages only leave out what it refuses. */
import { useQuery, type QueryClient } from "@tanstack/react-query";
import { open } from "../overlays/open.js";
import { losesNow } from "../ui/leave.js";
import { notify } from "../ui/notice.js";
import { currentSignIn, signOut } from "./client.js";

export function useAdmin(): boolean {
  const { data } = useQuery({ queryKey: ["sign-in"], queryFn: currentSignIn, staleTime: Infinity });
  return data?.me?.admin === true && data.me.read_only !== true;
}

/** Whether who has signed in may change anything at all. */
export function useWriter(): boolean {
  const { data } = useQuery({ queryKey: ["sign-in"], queryFn: currentSignIn, staleTime: Infinity });
  return data?.me !== undefined && data.me.read_only !== true;
}

/** leave signs out, and asks first where that loses something. */
export const leave = async (cache: QueryClient) => (losesNow() ? open({ kind: "leave" }) : leaveNow(cache));

/** leaveNow signs out. */
export const leaveNow = (cache: QueryClient) =>
  signOut().then(
    () => cache.resetQueries(),
    (err: unknown) => void notify({ text: "Signing out has failed", problems: [err instanceof Error ? err.message : String(err)] }),
  );
