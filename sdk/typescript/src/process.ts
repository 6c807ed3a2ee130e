import { toBase64 } from "./bytes.js";
import { newExecId, streamUntilAborted, untilAborted } from "./cancel.js";
import { collect } from "./collect.js";
import { attach, follow } from "./follow.js";
import type * as schemas from "./schemas.js";
import { type Transport } from "./transport.js";
import type * as types from "./types.js";

/** One request of wait asks for no more than this: connections on which nothing moves are cut. */
const waitMs = 60_000;

/** A program that runs beside the shell, with its standard output and error apart; or any command, by its execId. */
export class Process {
  readonly execId: string;
  /** As programs in the sandbox see it; not known of a process that was taken up by its id. */
  readonly pid: number | undefined;
  readonly #transport: Transport;
  readonly #sessionPath: string;

  /** @internal */
  constructor(transport: Transport, sessionPath: string, execId: string, pid?: number) {
    this.#transport = transport;
    this.#sessionPath = sessionPath;
    this.execId = execId;
    this.pid = pid;
  }

  get #path(): string {
    return `${this.#sessionPath}/execs/${encodeURIComponent(this.execId)}`;
  }

  /** The record, with the output until now. */
  async info(options: types.CallOptions = {}): Promise<types.ExecDetail> {
    return this.#transport.json("GET", this.#path, options);
  }

  /**
   * Writes to standard input until the process has taken all. It must have been started with `openStdin` or `tty`.
   * Input of any length may come in pieces, as a stream of a file gives it.
   */
  async writeStdin(
    data: string | Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
    options: types.CallOptions = {},
  ): Promise<void> {
    const pieces = typeof data === "string" ? [new TextEncoder().encode(data)] : data instanceof Uint8Array ? [data] : data;
    const limit = 512 << 10; // of one request; the daemon takes 1 MiB
    for await (const bytes of pieces) {
      let sent = 0;
      while (sent < bytes.length) {
        const json = { dataBase64: toBase64(bytes.subarray(sent, sent + limit)) };
        const { acceptedBytes } = await this.#post<schemas.SchemaStdinResponse>("stdin", json, options);
        sent += acceptedBytes;
      }
    }
  }

  /** Gives standard input its end. */
  async closeStdin(options: types.CallOptions = {}): Promise<void> {
    await this.#post("stdin", { close: true }, options);
  }

  /** A piece of the output. */
  async output(options: types.OutputOptions = {}): Promise<types.ProcessOutput> {
    const { signal, ...query } = options;
    return this.#transport.json("GET", `${this.#path}/output`, { query, signal });
  }

  /** Follows the output, from the first byte that is kept, to the end. */
  stream(options: types.CallOptions & { rawOutput?: boolean | undefined } = {}): AsyncGenerator<types.ExecEvent, void, undefined> {
    return follow(this.#transport, this.#sessionPath, () => attach(this.#transport, this.#sessionPath, this.execId, options), options);
  }

  /** Waits for the end and gives the record. */
  async wait(options: types.CallOptions = {}): Promise<types.ExecRecord> {
    for (;;) {
      const record = await this.#post<types.ExecRecord>("wait", { timeoutMs: waitMs }, { ...options, repeatable: true });
      if (record.state === "ended") {
        return record;
      }
    }
  }

  /** Sends a signal, by name or number, to the process and its group. */
  async signal(signal: string | number, options: types.CallOptions = {}): Promise<void> {
    await this.#post("signal", { signal }, options);
  }

  /** Ends the process and all that it started: TERM, and KILL after a grace. Again, or after its end, is no error. */
  async kill(options: types.CallOptions = {}): Promise<void> {
    await this.#post("cancel", undefined, { ...options, repeatable: true });
  }

  /** Sets the size of the terminal. */
  async resize(rows: number, cols: number, options: types.CallOptions = {}): Promise<void> {
    await this.#post("resize", { rows, cols }, { ...options, repeatable: true });
  }

  async #post<T>(verb: string, json: unknown, options: types.CallOptions & { repeatable?: boolean }): Promise<T> {
    return this.#transport.json<T>("POST", `${this.#path}/${verb}`, { json, ...options });
  }
}

/** The processes of a session. */
export class Processes {
  readonly #transport: Transport;
  readonly #sessionPath: string;

  /** @internal */
  constructor(transport: Transport, sessionPath: string) {
    this.#transport = transport;
    this.#sessionPath = sessionPath;
  }

  /**
   * Runs a program to its end. A text is shell code, which a new shell runs. An abort of `signal` ends it. For a program
   * that takes more than four minutes give `onStdout`, or use `start` and `wait`.
   */
  async run(cmd: string | string[], options: types.RunOptions = {}): Promise<types.ProcessResult> {
    const { onStdout, onStderr, ...own } = { ...options, execId: options.execId ?? newExecId() };
    if (onStdout || onStderr) {
      return collect(this.runStream(cmd, own), { onStdout, onStderr });
    }
    const started = { transport: this.#transport, sessionPath: this.#sessionPath, execId: own.execId, signal: own.signal };
    return untilAborted(started, () => this.#start(cmd, own, false));
  }

  /** Starts a program and answers as soon as it runs. */
  async start(cmd: string | string[], options: types.ProcessOptions = {}): Promise<Process> {
    const started = await this.#start(cmd, options, true);
    return new Process(this.#transport, this.#sessionPath, started.execId, started.pid);
  }

  /**
   * Runs a program and gives its output as it comes; each chunk says its stream. An abort of `signal` ends the program; to
   * leave the loop lets it go on.
   */
  runStream(cmd: string | string[], options: types.ProcessOptions = {}): AsyncGenerator<types.ExecEvent, void, undefined> {
    const own = { ...options, execId: options.execId ?? newExecId() };
    const open = () => this.#transport.response("POST", `${this.#sessionPath}/processes/stream`, { json: bodyOf(cmd, own), signal: own.signal });
    const started = { transport: this.#transport, sessionPath: this.#sessionPath, execId: own.execId, signal: own.signal };
    return streamUntilAborted(started, follow(this.#transport, this.#sessionPath, open, own));
  }

  /** The processes that run or ended not long ago, oldest first. */
  async list(options: types.CallOptions = {}): Promise<types.ExecRecord[]> {
    return this.#transport.json("GET", `${this.#sessionPath}/processes`, options);
  }

  /** Takes up a process by its id. It is not asked whether it is there. */
  get(execId: string): Process {
    return new Process(this.#transport, this.#sessionPath, execId);
  }

  async #start(cmd: string | string[], options: types.ProcessOptions, background: boolean): Promise<types.ProcessResult> {
    const json = { ...bodyOf(cmd, options), background };
    return this.#transport.json("POST", `${this.#sessionPath}/processes`, { json, signal: options.signal });
  }
}

/** What runs shell code: bash or, in an image without, sh. */
const shellCode = ["sh", "-c", 'exec "$(command -v bash || echo sh)" -c "$0"'];

function bodyOf(cmd: string | string[], { signal: _, stdin, ...rest }: types.ProcessOptions) {
  return { cmd: typeof cmd === "string" ? [...shellCode, cmd] : cmd, ...rest, ...(stdin instanceof Uint8Array ? { stdinBase64: toBase64(stdin) } : { stdin }) };
}
