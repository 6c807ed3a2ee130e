/** What was done, at the lower edge for a while: it takes no focus and covers nothing that is needed. */
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { Button, look } from "./button.js";
import { useHint } from "./keys.js";
import { store } from "./store.js";
import { plain } from "./text.js";

export interface Notice {
  id: number;
  text: string;
  /** What went wrong, one line each. Such a notice stays until it is closed, as one about a session does. */
  problems?: readonly string[];
  /** Takes back what was done. */
  undo?: (() => void) | undefined;
  /** The id of the session that it is about, which it leads to. */
  session?: string;
  /** It goes on, and another notice follows. */
  pending?: boolean;
}

/** How long a notice is there, without the time in which the pointer or the focus is on it. */
const shownMs = 10_000;
/** How many there are at a time, how many if none of them may go by itself, and how many problems each shows. */
const most = 3;
const mostKept = 6;
const mostProblems = 5;

const notices = store<readonly Notice[]>([]);
let last = 0;

/** notify shows a notice, and gives what takes it away. */
export function notify(notice: Omit<Notice, "id">): () => void {
  const id = ++last;
  notices.set(fewer([...notices.get(), { ...notice, id }]));
  return () => notices.set(notices.get().filter((one) => one.id !== id));
}

/** fewer leaves out the oldest ones that tell nothing to be done, and lastly the oldest of all. */
function fewer(all: readonly Notice[]): readonly Notice[] {
  if (all.length <= most) return all;
  const at = all.findIndex(({ problems = [], undo, session }, at) => at < all.length - 1 && problems.length === 0 && !undo && session === undefined);
  return at >= 0 ? fewer(all.toSpliced(at, 1)) : all.slice(-mostKept);
}

export const clearNotices = () => notices.set([]);

/** What the newest notice that can be undone takes back, or undefined. */
export function lastUndo(): (() => void) | undefined {
  const one = notices.get().findLast(({ undo }) => undo);
  return one && (() => undo(one));
}

function undo(one: Notice) {
  notices.set(notices.get().filter(({ id }) => id !== one.id));
  one.undo?.();
}

export function Notices() {
  const all = notices.use();
  return (
    <div role="status" aria-label="Notices" className="pointer-events-none fixed inset-x-0 bottom-3 z-30 flex flex-col items-center gap-2 px-3">
      {all.map((one) => (
        <One key={one.id} notice={one} />
      ))}
    </div>
  );
}

function One({ notice }: { notice: Notice }) {
  const { id, text, problems = [], pending = false } = notice;
  const [held, setHeld] = useState(false);
  const left = useRef(shownMs);
  const hint = useHint("z");
  const close = () => notices.set(notices.get().filter((one) => one.id !== id));
  const stays = held || pending || problems.length > 0 || notice.session !== undefined;
  useEffect(() => {
    if (stays) return;
    const begun = Date.now();
    const timer = setTimeout(() => notices.set(notices.get().filter((one) => one.id !== id)), left.current);
    return () => {
      clearTimeout(timer);
      left.current = Math.max(1000, left.current - (Date.now() - begun));
    };
  }, [id, stays]);
  return (
    <div
      className="pointer-events-auto flex max-w-full items-start gap-3 rounded-lg border border-line bg-raised py-1.5 pr-1.5 pl-3 shadow-lg sm:max-w-xl"
      onMouseEnter={() => setHeld(true)}
      onMouseLeave={(event) => setHeld(event.currentTarget.contains(document.activeElement))}
      onFocus={() => setHeld(true)}
      onBlur={() => setHeld(false)}
    >
      <div className="min-w-0 py-1.5">
        <p>{plain(text)}</p>
        {problems.length > 0 && (
          <ul className="mt-1 text-bad">
            {problems.slice(0, mostProblems).map((problem) => (
              <li key={problem} className="break-words">
                {plain(problem)}
              </li>
            ))}
            {problems.length > mostProblems && <li>and {problems.length - mostProblems} more, in the table</li>}
          </ul>
        )}
      </div>
      <div className="flex shrink-0">
        {notice.session !== undefined && (
          <Link to="/sessions/$id" params={{ id: notice.session }} search={{ tab: "about" }} onClick={close} className={look("bare")}>
            Show it
          </Link>
        )}
        {notice.undo && (
          <Button onClick={() => undo(notice)} {...hint}>
            Undo
          </Button>
        )}
        {!pending && (
          <Button kind="bare" aria-label="Close this notice" onClick={close}>
            {"\u00d7"}
          </Button>
        )}
      </div>
    </div>
  );
}
