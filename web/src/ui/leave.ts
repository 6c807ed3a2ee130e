/** What would be lost if the browser left the page now: it asks before it does. */
import { useEffect } from "react";

const losses = new Set<unknown>();
addEventListener("beforeunload", (event) => losses.size > 0 && event.preventDefault());

/** wouldLose notes that leaving would lose something, or not any more. */
export function wouldLose(what: unknown, now: boolean): void {
  if (now) losses.add(what);
  else losses.delete(what);
}

const tabs = new BroadcastChannel("sandkasten losses");
const heard = new EventTarget();
tabs.onmessage = ({ data }) => {
  if (data === "yes") heard.dispatchEvent(new Event("yes"));
  else if (losses.size > 0) tabs.postMessage("yes");
};

/** How long other tabs may take to say that they would lose something. */
const answerMs = 1000;

/** losesAnywhere says whether leaving would, here or in another tab. */
export function losesAnywhere(): Promise<boolean> {
  if (losses.size > 0) return Promise.resolve(true);
  return new Promise((resolve) => {
    heard.addEventListener("yes", () => resolve(true), { once: true });
    setTimeout(() => resolve(false), answerMs);
    tabs.postMessage("ask");
  });
}

/** useLoss does so while a part of the page is shown. */
export function useLoss(now: boolean): void {
  useEffect(() => {
    const what = {};
    wouldLose(what, now);
    return () => wouldLose(what, false);
  }, [now]);
}
