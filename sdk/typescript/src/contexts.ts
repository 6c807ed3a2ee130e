/// <reference lib="esnext.disposable" preserve="true" />
import { fromBase64 } from "./bytes.js";
import { asyncDispose } from "./dispose.js";
import { SandkastenError, apiError } from "./errors.js";
import { bodyOf } from "./follow.js";
import { fromWire } from "./names.js";
import type * as schemas from "./schemas.js";
import { type ServerEvent, serverEvents } from "./sse.js";
import { type Transport, lost, parse } from "./transport.js";
import type * as types from "./types.js";

/** What came of code, with the forms that are asked for most. */
export class CodeRun {
  /** The answer as the daemon gave it. */
  readonly info: types.CodeRunInfo;

  /** @internal */
  constructor(info: types.CodeRunInfo) {
    this.info = info;
  }

  /** What the code displayed, and at last the value of its last expression. */
  get results(): types.CodeResult[] {
    return this.info.results;
  }
  get stdout(): string {
    return this.info.stdout;
  }
  get stderr(): string {
    return this.info.stderr;
  }
  /** The exception, if the code raised one. */
  get error(): types.CodeError | undefined {
    return this.info.error;
  }
  get cause(): types.CodeRunInfo["cause"] {
    return this.info.cause;
  }
  /** The value of the last expression as text. */
  get text(): string | undefined {
    return this.results.find((result) => result.isMainResult)?.data["text/plain"] as string | undefined;
  }
  /** The last picture that the code showed. */
  get png(): Uint8Array | undefined {
    const pictures = this.results.map((result) => result.data["image/png"]).filter((picture) => typeof picture === "string");
    const last = pictures.at(-1);
    return last === undefined ? undefined : fromBase64(last);
  }
}

/** A kernel of a session: variables, imports and functions stay from one run to the next. */
export class CodeContext {
  /** Its context_id, or the name by which it was asked for. */
  readonly id: string;
  /** The context as the daemon described it last; see `refresh`. */
  info: types.ContextInfo | undefined;
  readonly #transport: Transport;
  readonly #sessionPath: string;

  /** @internal */
  constructor(transport: Transport, sessionPath: string, id: string, info?: types.ContextInfo) {
    this.#transport = transport;
    this.#sessionPath = sessionPath;
    this.id = id;
    this.info = info;
  }

  get #path(): string {
    return contextPath(this.#sessionPath, this.id);
  }

  /** Asks for the context as it is now. */
  async refresh(options: types.CallOptions = {}): Promise<types.ContextInfo> {
    this.info = await this.#transport.json<types.ContextInfo>("GET", this.#path, options);
    return this.info;
  }

  /** Runs code after what was sent before it, and gives what came of it. That code fails is a result: see `cause`. */
  async run(code: string, options: types.RunOptions = {}): Promise<CodeRun> {
    return runCode(this.#transport, this.#sessionPath, `${this.#path}/run`, code, options);
  }

  /** A run that was begun before: its end, if it comes within `waitMs`, or what there is until then. */
  async getRun(runId: string, options: types.CallOptions & { waitMs?: number | undefined } = {}): Promise<CodeRun> {
    const { signal, waitMs } = options;
    return new CodeRun(await this.#transport.json("GET", `${this.#path}/runs/${encodeURIComponent(runId)}`, { query: { waitMs }, signal }));
  }

  /** Follows a run that was begun before, from its start to its end. */
  async followRun(runId: string, options: types.RunCallbacks & types.CallOptions = {}): Promise<CodeRun> {
    const place = { contextId: this.id, runId, last: undefined };
    return followRun(this.#transport, this.#sessionPath, () => attachRun(this.#transport, this.#sessionPath, place, options.signal), options, place);
  }

  /** Interrupts the run that it is at, and keeps the variables. */
  async interrupt(options: types.CallOptions = {}): Promise<void> {
    await this.#transport.json("POST", `${this.#path}/interrupt`, { ...options, repeatable: true });
  }

  /** Gives it a new kernel, without variables. */
  async restart(options: types.CallOptions = {}): Promise<types.ContextInfo> {
    this.info = await this.#transport.json<types.ContextInfo>("POST", `${this.#path}/restart`, options);
    return this.info;
  }

  /** Ends it with all that its kernel started. */
  async delete(options: types.CallOptions = {}): Promise<void> {
    await this.#transport.json("DELETE", this.#path, options);
  }

  /** Deletes the context at the end of an `await using` block. */
  async [asyncDispose](): Promise<void> {
    await this.delete();
  }
}

function contextPath(sessionPath: string, id: string): string {
  return `${sessionPath}/contexts/${encodeURIComponent(id)}`;
}

/** Where a reader of a run's events is. */
interface RunPlace {
  contextId: string;
  runId: string;
  last: string | undefined;
}

/** runCode runs code; with somebody to tell, as a stream. */
export async function runCode(transport: Transport, sessionPath: string, path: string, code: string, options: types.RunOptions & { language?: string | undefined }): Promise<CodeRun> {
  const { signal, timeoutMs, language } = options;
  const json = { code, timeoutMs, language };
  const { onStart, onStdout, onStderr, onResult, onUpdate, onClear, onError } = options;
  if (onStart ?? onStdout ?? onStderr ?? onResult ?? onUpdate ?? onClear ?? onError) {
    return followRun(transport, sessionPath, () => transport.response("POST", `${path}/stream`, { json, signal }), options);
  }
  return new CodeRun(await transport.json("POST", path, { json, signal }));
}

function attachRun(transport: Transport, sessionPath: string, place: RunPlace, signal: AbortSignal | undefined): Promise<Response> {
  const path = `${contextPath(sessionPath, place.contextId)}/runs/${encodeURIComponent(place.runId)}/stream`;
  return transport.response("GET", path, { headers: { "Last-Event-ID": place.last }, signal });
}

/** followRun reads the events of a run to its end, and goes on where the connection breaks. */
async function followRun(
  transport: Transport,
  sessionPath: string,
  open: () => Promise<Response>,
  options: types.RunCallbacks & types.CallOptions,
  place: RunPlace = { contextId: "", runId: "", last: undefined },
): Promise<CodeRun> {
  let response = await open();
  const patience = transport.patience();
  for (;;) {
    let broken: unknown;
    try {
      for await (const event of serverEvents(bodyOf(response))) {
        if (event.event === "done") return new CodeRun(fromWire(parse(event.data)) as types.CodeRunInfo);
        if (event.event === "error") throw apiError(parse(event.data));
        tellRun(event, options, place);
        if (event.id !== "") {
          if (event.event !== "start") place.last = event.id;
          patience.progress();
        }
      }
    } catch (error) {
      if (error instanceof SandkastenError || place.runId === "") throw error;
      broken = error;
    }
    const failed = lost(broken ?? "the stream ended early", options.signal);
    if (place.runId === "") throw failed;
    await patience.resume(failed, options.signal);
    response = await attachRun(transport, sessionPath, place, options.signal);
  }
}

function tellRun({ event, data }: ServerEvent, options: types.RunCallbacks, place: RunPlace): void {
  const told = fromWire(parse(data));
  switch (event) {
    case "start":
      if (place.runId === "") {
        Object.assign(place, told);
        options.onStart?.(told as { contextId: string; runId: string });
      }
      break;
    case "stdout":
      options.onStdout?.((told as { text: string }).text);
      break;
    case "stderr":
      options.onStderr?.((told as { text: string }).text);
      break;
    case "result":
      if ((told as { updates?: boolean }).updates === true) options.onUpdate?.(told as schemas.SchemaResult);
      else options.onResult?.(told as schemas.SchemaResult);
      break;
    case "clear":
      options.onClear?.();
      break;
    case "exception":
      options.onError?.(told as schemas.SchemaRunError);
      break;
  }
}
