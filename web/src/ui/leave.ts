/** What would be lost if the browser left the page now: it asks before it does. */
import { useEffect } from "react";

const losses = new Set<unknown>();
addEventListener("beforeunload", (event) => losses.size > 0 && event.preventDefault());

/** wouldLose notes that leaving would lose something, or not any more. */
export function wouldLose(what: unknown, now: boolean): void {
  if (now) losses.add(what);
  else losses.delete(what);
}

/** losesNow says whether leaving would. */
export const losesNow = () => losses.size > 0;

/** useLoss does so while a part of the page is shown. */
export function useLoss(now: boolean): void {
  useEffect(() => {
    const what = {};
    wouldLose(what, now);
    return () => wouldLose(what, false);
  }, [now]);
}
