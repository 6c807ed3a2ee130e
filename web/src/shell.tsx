/** What is around every page: who has signed in, the live stream, the way to the pages. */
import { Link, Outlet, useNavigate } from "@tanstack/react-router";
import { Suspense, useLayoutEffect, useRef, useState, type SyntheticEvent } from "react";
import { createPortal } from "react-dom";
import type { SignIn } from "./api/client.js";
import { useLive } from "./api/live.js";
import { identityOf, leave, useSignIn, useSignInEnds, useWriter } from "./api/me.js";
import { close, open, overlay } from "./overlays/open.js";
import { usePlaces } from "./places.js";
import { SignInPage } from "./pages/signin.js";
import { Button } from "./ui/button.js";
import { Boundary, late } from "./ui/late.js";
import { Kbd, chooseRow, focusSearch, moveRow, openRow, paletteKeys, singleKeys, useKeyboard, useShortcuts } from "./ui/keys.js";
import { Notices, lastUndo } from "./ui/notice.js";
import { ErrorNote, Skeleton } from "./ui/notes.js";
import { Text } from "./ui/text.js";
import { ThemeButton } from "./ui/theme.js";

const Overlays = late(() => import("./overlays/all.js").then((all) => all.default));

export function Shell() {
  const who = useSignIn();
  useSignInEnds();
  if (who.isPending) return <Skeleton />;
  if (!who.data) return <div className="p-4"><ErrorNote error={who.error} /></div>;
  const { signed_in: signedIn, ways, me } = who.data;
  const identity = identityOf(who.data);
  if (!me || !identity) return <SignInPage ways={ways} />;
  return (
    <>
      <SignedIn key={identity} owner={me.owner} identity={signedIn ? identity : undefined} />
      {!signedIn && <SignInAgain ways={ways} owner={me.owner} />}
    </>
  );
}

const stop = (event: SyntheticEvent) => event.stopPropagation();

/** SignInAgain lies over all that the page has, dialogs included, of which nothing can be seen or reached meanwhile. */
function SignInAgain({ ways, owner }: { ways: SignIn["ways"]; owner: string }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const show = () => {
    if (dialog.current?.isConnected && !dialog.current.open) dialog.current.showModal();
  };
  useLayoutEffect(() => {
    const before = document.activeElement;
    show();
    // A browser closes a dialog at the second Escape whatever it says, and what is typed next would go below.
    const stay = (event: KeyboardEvent) => event.key === "Escape" && event.preventDefault();
    addEventListener("keydown", stay, true);
    return () => {
      removeEventListener("keydown", stay, true);
      if (before instanceof HTMLElement) setTimeout(() => before.focus());
    };
  }, []);
  // The keys are for the sign-in alone, and a browser that closes a dialog at Escape does not close this one.
  return createPortal(
    <dialog ref={dialog} data-cover aria-label="Sign in again" onKeyDown={stop} onCancel={(event) => event.preventDefault()} onClose={show} className="m-0 h-full max-h-none w-full max-w-none bg-page text-text">
      <SignInPage ways={ways} again={owner} />
    </dialog>,
    document.body,
  );
}

/** Without an identity the sign-in has ended, and the page waits for another of the same user. */
function SignedIn({ owner, identity }: { owner: string; identity: string | undefined }) {
  const away = useLive(identity);
  const [unfolded, setUnfolded] = useState(false);
  const withKeys = singleKeys.use();
  const places = usePlaces();
  useKeyboard();
  useEverywhere();
  const over = overlay.use() !== undefined;
  return (
    <div className="flex h-full flex-col">
      <header className="flex min-h-12 shrink-0 flex-wrap items-center gap-1 border-b border-line bg-raised px-3 sm:gap-4 sm:px-4">
        <Link to="/" className="font-semibold">
          Sandkasten
        </Link>
        <Button kind="bare" className="lg:hidden" aria-expanded={unfolded} aria-controls="pages" onClick={() => setUnfolded(!unfolded)}>
          Pages
        </Button>
        <nav id="pages" aria-label="Pages" onClick={() => setUnfolded(false)} className={`order-last w-full flex-wrap gap-1 pb-2 lg:order-none lg:flex lg:w-auto lg:pb-0 ${unfolded ? "flex" : "hidden"}`}>
          {places.map((place) => (
            <Link key={place.to} to={place.to} title={withKeys ? `Keys: g ${place.key}` : undefined} activeOptions={{ exact: place.to === "/" }} className="rounded px-2 py-1 whitespace-nowrap text-muted hover:bg-sunk" activeProps={{ className: "text-text" }}>
              {place.name}
            </Link>
          ))}
          <a href="/docs" title={withKeys ? "Keys: g d" : undefined} className="rounded px-2 py-1 text-muted hover:bg-sunk">
            Documentation
          </a>
        </nav>
        <div role="status" className="ml-auto text-warn">
          {away && "The daemon is away; trying again"}
        </div>
        <Button kind="plain" className="text-muted" aria-label="Command palette" aria-keyshortcuts="Control+K Meta+K" onClick={() => open({ kind: "palette" })}>
          Find
          <span className="hidden sm:inline">
            <Kbd>{paletteKeys}</Kbd>
          </span>
        </Button>
        <ThemeButton />
        <span className="hidden text-muted sm:inline">
          <Text of={owner} />
        </span>
        <Button kind="bare" onClick={() => void leave()}>
          Sign out
        </Button>
      </header>
      <Notices />
      {over && (
        <Boundary onClose={close}>
          <Suspense fallback={null}>
            <Overlays />
          </Suspense>
        </Boundary>
      )}
      <main className="min-h-0 flex-1 overflow-auto">
        <Outlet />
      </main>
    </div>
  );
}

/** useEverywhere has the keys that every page has. */
function useEverywhere() {
  const navigate = useNavigate();
  const writer = useWriter();
  const places = usePlaces();
  const undo = () => {
    const act = lastUndo();
    act?.();
    return act !== undefined;
  };
  useShortcuts({
    palette: () => open({ kind: "palette" }),
    "?": () => open({ kind: "keys" }),
    n: () => (writer ? open({ kind: "create" }) : false),
    z: undo,
    "/": focusSearch,
    j: () => moveRow(1),
    k: () => moveRow(-1),
    x: chooseRow,
    o: () => openRow(),
    "g d": () => window.location.assign("/docs"),
    ...Object.fromEntries(places.map((place) => [`g ${place.key}`, () => void navigate({ to: place.to })])),
  });
}
