import { fromBase64 } from "./bytes.js";
import { ConnectionError, SandkastenError, apiError } from "./errors.js";
import { fromWire } from "./names.js";
import { type ServerEvent, serverEvents } from "./sse.js";
import { type Transport, lost, parse } from "./transport.js";
import type { DoneEvent, EventsOptions, ExecEvent, NetworkEvent, SandboxEvent } from "./types.js";

/** A quiet connection that stood for so long was of use. */
const longMs = 30_000;

export interface FollowOptions {
  signal?: AbortSignal | undefined;
  rawOutput?: boolean | undefined;
}

/**
 * follow gives the events of the stream that open begins, and goes on where it breaks as often as that makes progress:
 * no byte is lost or doubled. A stream that breaks before its first event is not begun again, since that would run the
 * command twice.
 */
export async function* follow(
  transport: Transport,
  sessionPath: string,
  open: () => Promise<Response>,
  options: FollowOptions,
): AsyncGenerator<ExecEvent, void, undefined> {
  let response = await open();
  let last = ""; // the id of the last event
  const patience = transport.patience();
  for (;;) {
    let broken: unknown;
    try {
      for await (const event of serverEvents(bodyOf(response))) {
        const known = execEvent(event);
        if (known === undefined) {
          continue;
        }
        if (known.type !== "start") {
          last = event.id;
          patience.progress();
          yield known;
        } else if (last === "") {
          last = event.id; // a stream that goes on begins with start again
          yield known;
        }
        if (known.type === "done") {
          return;
        }
      }
    } catch (error) {
      if (error instanceof SandkastenError) {
        throw error;
      }
      broken = error;
    }
    const [execId] = last.split(":");
    const failed = lost(broken ?? "the stream ended early", options.signal);
    if (!execId) {
      throw failed;
    }
    await patience.resume(failed, options.signal);
    response = await attach(transport, sessionPath, execId, options, last);
  }
}

/** attach opens the stream of a command or process, behind the event `last` if there is one. */
export function attach(transport: Transport, sessionPath: string, execId: string, options: FollowOptions, last?: string): Promise<Response> {
  return transport.response("GET", `${sessionPath}/execs/${encodeURIComponent(execId)}/stream`, {
    query: { rawOutput: options.rawOutput },
    headers: { "Last-Event-ID": last },
    signal: options.signal,
  });
}

/** followLog gives the decisions about a session's network until the session ends, and goes on where it breaks. */
export async function* followLog(
  transport: Transport,
  path: string,
  options: { signal?: AbortSignal | undefined; sinceSeq?: number | undefined },
): AsyncGenerator<NetworkEvent, void, undefined> {
  let last = options.sinceSeq?.toString(); // the id of the last event
  const patience = transport.patience();
  for (;;) {
    let broken: unknown = "the stream of the log ended early";
    const response = await transport.response("GET", path, { headers: { "Last-Event-ID": last }, signal: options.signal });
    const opened = Date.now();
    try {
      for await (const { event, id, data } of serverEvents(bodyOf(response))) {
        if (event === "done") return;
        if (event === "error") throw apiError(parse(data));
        if (event !== "network") continue; // of a later version
        last = id;
        patience.progress();
        yield fromWire(parse(data)) as NetworkEvent;
      }
    } catch (error) {
      if (error instanceof SandkastenError) throw error;
      broken = error;
    }
    if (Date.now() - opened > longMs) patience.progress();
    await patience.resume(lost(broken, options.signal), options.signal);
  }
}

/** followEvents gives what happens in the daemon, and goes on where it breaks. What began a stream that goes on is left out. */
export async function* followEvents(transport: Transport, options: EventsOptions): AsyncGenerator<SandboxEvent, void, undefined> {
  const { signal, since, types, ...rest } = options;
  let last = since;
  let ready = false;
  const patience = transport.patience();
  for (;;) {
    let broken: unknown = "the event stream ended early";
    const response = await transport.response("GET", "/v1/events", {
      query: { ...rest, types: types?.join(",") },
      headers: { "Last-Event-ID": last },
      signal,
    });
    try {
      for await (const { event, id, data } of serverEvents(bodyOf(response))) {
        if (id !== "") last = id;
        patience.progress();
        if (event === "" || (event === "ready" && ready)) continue;
        ready = true;
        yield fromWire(parse(data)) as SandboxEvent;
      }
    } catch (error) {
      if (error instanceof SandkastenError) throw error;
      broken = error;
    }
    await patience.resume(lost(broken, signal), signal);
  }
}

export function bodyOf(response: Response): ReadableStream<Uint8Array> {
  if (response.body === null) {
    throw new ConnectionError(`the daemon answered with no stream (status ${response.status})`);
  }
  return response.body;
}

interface WireChunk {
  chunk: string;
  chunk_base64?: string;
  stream?: "stdout" | "stderr";
  timestamp: string | number;
  time?: string;
}

function execEvent({ event, data }: ServerEvent): ExecEvent | undefined {
  const body = parse(data);
  switch (event) {
    case "start":
      return { type: "start", execId: (body as { exec_id: string }).exec_id };
    case "chunk": {
      const { chunk, chunk_base64, stream, timestamp, time } = body as WireChunk;
      const bytes = chunk_base64 === undefined ? new TextEncoder().encode(chunk) : fromBase64(chunk_base64);
      return { type: "chunk", text: chunk, bytes, timestamp: time ?? String(timestamp), ...(stream && { stream }) };
    }
    case "done":
      return { type: "done", ...(fromWire(body) as Omit<DoneEvent, "type">) };
    case "error":
      throw apiError(body);
  }
  return undefined; // of a later version
}
