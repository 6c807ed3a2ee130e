/**
 * The events of the daemon. A browser has six connections to a host for all its tabs together, so one tab reads the stream and
 * passes it on to the others. A tab that is hidden reads nothing: a browser may freeze it.
 */
import type { SandboxEvent } from "@sandkasten/sdk";
import { client } from "./client.js";

/** What tabs tell one another: an event; how the daemon is, and the last event's id; that a tab has come, which knows neither. */
type Word = { event: SandboxEvent } | { away: boolean; last: string | undefined } | "new";

const pauseMs = 2000;

/** pause waits, and no longer than until signal aborts. */
export const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });

/** untilSeen waits until the page is seen, or signal aborts. */
const untilSeen = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });

/** whileSeen aborts when the page is hidden, or signal aborts. */
function whileSeen(signal: AbortSignal): AbortSignal {
  const hidden = new AbortController();
  const look = () => document.hidden && hidden.abort();
  document.addEventListener("visibilitychange", look);
  hidden.signal.addEventListener("abort", () => document.removeEventListener("visibilitychange", look));
  signal.addEventListener("abort", () => hidden.abort(), { signal: hidden.signal });
  if (signal.aborted) hidden.abort();
  return hidden.signal;
}

/**
 * follow calls hear with each event, and tell when the daemon is away or back, until what it gives is called. The first event
 * is "ready", and another "ready" or a "gap" comes where events may be missing. Tabs of the same name share one stream: the
 * name is that of who has signed in, so that nobody hears the events of another.
 */
export function follow(name: string, hear: (event: SandboxEvent) => void, tell: (away: boolean) => void): () => void {
  const ending = new AbortController();
  // A page that came by plain HTTP from another host has no locks, and reads for itself.
  const locks = navigator.locks as LockManager | undefined;
  const channel = locks && new BroadcastChannel(name);
  let [leads, joined, away] = [false, false, false];
  let last: string | undefined;

  const note = (event: SandboxEvent) => {
    joined = true;
    last = event.id || last;
    hear(event);
  };
  const missed = () => hear({ type: "gap", id: "", time: new Date().toISOString() });
  const setAway = (now: boolean) => {
    if (now !== away) tell(now);
    away = now;
    channel?.postMessage({ away, last } satisfies Word);
  };

  const read = async (signal: AbortSignal) => {
    leads = true;
    while (!signal.aborted) {
      try {
        const resumed = last !== undefined;
        for await (const event of client.events({ signal, since: last })) {
          if (signal.aborted) break;
          if (away) setAway(false);
          if (event.type === "ready" && resumed) continue; // what was missed comes behind it, or a gap
          note(event);
          channel?.postMessage({ event } satisfies Word);
        }
      } catch {
        if (!signal.aborted) setAway(true);
      }
      await pause(pauseMs, signal);
    }
    leads = false;
  };

  const run = async () => {
    while (!ending.signal.aborted) {
      await untilSeen(ending.signal);
      const seen = whileSeen(ending.signal);
      if (!locks) await read(seen);
      // It rejects when the page is hidden before its turn has come.
      else await locks.request(name, { signal: seen }, () => read(seen)).catch(() => pause(pauseMs, seen));
    }
  };

  if (channel) {
    channel.onmessage = ({ data }: MessageEvent<Word>) => {
      if (data === "new") {
        if (leads && (joined || away)) channel.postMessage({ away, last } satisfies Word);
      } else if ("event" in data) note(data.event);
      else {
        last = data.last ?? last;
        if (data.away !== away) tell((away = data.away));
        // What is read from now on is complete, as after the first event of a stream.
        if (!joined) note({ type: "ready", id: "", time: new Date().toISOString() });
      }
    };
    channel.postMessage("new" satisfies Word);
  }
  // A page that was frozen has missed what others told.
  document.addEventListener("resume", missed, { signal: ending.signal });
  addEventListener("pageshow", ({ persisted }) => persisted && missed(), { signal: ending.signal });
  void run();
  return () => {
    ending.abort();
    channel?.close();
  };
}
