import { NotFoundError } from "./errors.js";
import { type Transport, sleep } from "./transport.js";

/** What the end of a command adds to a call that its caller aborts. */
const endMs = 2_000;
/** The request for a command may still be on its way when its end is asked for. */
const pausesMs = [50, 100, 200, 400];

const alphabet = "abcdefghijklmnopqrstuvwxyz234567";

/** newExecId is as the daemon's own ids are. */
export function newExecId(): string {
  const random = new Uint8Array(26);
  if (globalThis.crypto !== undefined) crypto.getRandomValues(random);
  else random.forEach((_, i) => (random[i] = Math.random() * 256)); // Node 18; an id need not be secret
  return Array.from(random, (byte) => alphabet[byte & 31]).join("");
}

/** A command that a call runs. */
export interface Started {
  transport: Transport;
  sessionPath: string;
  execId: string;
  signal: AbortSignal | undefined;
}

/**
 * untilAborted runs a command by `run`, and ends the command when the signal is aborted first. Otherwise it would keep the
 * session's shell. After a broken connection it goes on, and can be attached to.
 */
export async function untilAborted<T>(started: Started, run: () => Promise<T>): Promise<T> {
  const sent = !started.signal?.aborted;
  try {
    return await run();
  } catch (error) {
    if (sent && started.signal?.aborted) await endCommand(started);
    throw error;
  }
}

/** streamUntilAborted is untilAborted for a command whose events are followed. Who leaves the stream lets it go on. */
export async function* streamUntilAborted<T>(started: Started, events: AsyncGenerator<T, void, undefined>): AsyncGenerator<T, void, undefined> {
  const sent = !started.signal?.aborted;
  let ended = false;
  try {
    yield* events;
    ended = true;
  } finally {
    if (sent && !ended && started.signal?.aborted) await endCommand(started);
  }
}

async function endCommand({ transport, sessionPath, execId }: Started): Promise<void> {
  const signal = AbortSignal.timeout(endMs);
  try {
    for (const pause of pausesMs) {
      const missing = await transport.json("POST", `${sessionPath}/execs/${encodeURIComponent(execId)}/cancel`, { signal }).then(() => undefined, (error: unknown) => error);
      if (!(missing instanceof NotFoundError && missing.reason === "no_such_exec")) return; // it is ended, or cannot be
      await sleep(pause, signal);
    }
  } catch {
    return; // the time is up; the caller gets the reason of its abort
  }
}
