/** What the page does with sessions, from wherever it is asked for. */
import type { BulkAction, BulkResult, SessionInfo } from "@sandkasten/sdk";
import { notify } from "../ui/notice.js";
import { store } from "../ui/store.js";
import { client } from "./client.js";

/** What can be done with a session and taken back. */
export type Verb = Exclude<BulkAction, "destroy">;

const offered: Record<string, readonly Verb[]> = { running: ["pause", "stop"], paused: ["resume", "stop"], stopped: ["start"] };

/** verbsOf is what a session's state lets one do with it, but for a delete. */
export const verbsOf = ({ status }: SessionInfo): readonly Verb[] => offered[status] ?? [];

export const isOver = ({ status }: SessionInfo) => ["destroyed", "expired", "crashed", "failed"].includes(status);

const words: Record<BulkAction, { doing: string; done: string; undo?: Verb }> = {
  stop: { doing: "Stopping", done: "Stopped", undo: "start" },
  start: { doing: "Starting", done: "Started", undo: "stop" },
  pause: { doing: "Pausing", done: "Paused", undo: "resume" },
  resume: { doing: "Resuming", done: "Resumed", undo: "pause" },
  destroy: { doing: "Deleting", done: "Deleted" },
};

/** Why sessions could not be changed when that was last tried, by their ids. */
export const failures = store<ReadonlyMap<string, string>>(new Map());
let failedAt = 0;

/** How long events may still come of what has failed. */
const echoMs = 2000;

/** settled notes that something new is known of a session: why it could not be changed before is of no more use. */
export function settled(id: string): void {
  if (!failures.get().has(id) || performance.now() - failedAt < echoMs) return;
  failures.set(new Map([...failures.get()].filter(([of]) => of !== id)));
}

/** How many sessions the daemon takes at once. */
const atOnce = 1000;

export const called = (sessions: readonly SessionInfo[]) => (sessions.length === 1 && sessions[0] ? (sessions[0].name ?? sessions[0].id.slice(0, 8)) : `${sessions.length} sessions`);

async function request(action: BulkAction, ids: string[]): Promise<BulkResult[]> {
  const results: BulkResult[] = [];
  for (let begin = 0; begin < ids.length; begin += atOnce) results.push(...(await client.changeSessions(action, ids.slice(begin, begin + atOnce))));
  return results;
}

/**
 * changeSessions does the same with each session, and says what came of it in a notice, which can take it back where that is
 * possible. It gives those that have failed.
 */
export async function changeSessions(action: BulkAction, sessions: readonly SessionInfo[], undoable = true): Promise<ReadonlyMap<string, string>> {
  const { doing, done, undo } = words[action];
  const wait = notify({ text: `${doing} ${called(sessions)}`, pending: true });
  const failed = new Map<string, string>();
  try {
    for (const { id, error } of await request(action, sessions.map(({ id }) => id))) if (error) failed.set(id, error.error);
  } catch (err) {
    for (const { id } of sessions) failed.set(id, err instanceof Error ? err.message : String(err));
  }
  wait();
  const tried = new Set(sessions.map(({ id }) => id));
  failures.set(new Map([...[...failures.get()].filter(([id]) => !tried.has(id)), ...failed]));
  if (failed.size > 0) failedAt = performance.now();
  const changed = sessions.filter(({ id }) => !failed.has(id));
  // Only what this has changed is taken back: a session that was stopped before stays so.
  const reversible = undoable && undo ? changed.filter((one) => verbsOf(one).includes(action as Verb)) : [];
  // What was paused before a stop is started and then paused.
  const takeBack = async (back: Verb) => {
    const failedBack = await changeSessions(back, reversible, false);
    const paused = reversible.filter(({ id, status }) => action === "stop" && status === "paused" && !failedBack.has(id));
    if (paused.length > 0) await changeSessions("pause", paused, false);
  };
  // A start that takes back a stop does not bring back what the stop has ended.
  const ended = action === "start" && !undoable ? "; what ran before does not come back" : "";
  notify({
    text: changed.length > 0 ? `${done} ${called(changed)}${ended}${failed.size > 0 ? `; ${failed.size} of ${sessions.length} failed` : ""}` : `${called(sessions)}: it failed`,
    problems: [...failed].map(([id, why]) => `${called(sessions.filter((one) => one.id === id))}: ${why}`),
    undo: undo && reversible.length > 0 ? () => void takeBack(undo) : undefined,
  });
  return failed;
}
