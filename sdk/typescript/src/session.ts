/// <reference lib="esnext.disposable" preserve="true" />
import { type Started, newExecId, streamUntilAborted, untilAborted } from "./cancel.js";
import { CodeContext, type CodeRun, runCode } from "./contexts.js";
import { asyncDispose } from "./dispose.js";
import { Files, watch } from "./files.js";
import { attach, follow, followLog } from "./follow.js";
import { Ports } from "./ports.js";
import { Processes } from "./process.js";
import type * as schemas from "./schemas.js";
import { Terminal } from "./terminal.js";
import { type Transport, newKey } from "./transport.js";
import type * as types from "./types.js";

/** A command that may take longer is waited for in pieces: Node's fetch gives up after five minutes without an answer. */
const longExecMs = 240_000;
const waitMs = 60_000;

/** networkBody leaves out of what the daemon told what is only told: placeholders, and what a stored secret has. */
export function networkBody(network: types.NetworkOptions): types.NetworkOptions {
  const secrets = network.secrets?.map(({ placeholder, ...secret }: schemas.SchemaNetworkSecretRequest & { placeholder?: string }) =>
    placeholder !== undefined && secret.stored ? { name: secret.name, stored: secret.stored } : secret,
  );
  const { relay: _told, ...rest } = network as types.NetworkOptions & { relay?: boolean };
  return { ...rest, secrets };
}

/** A machine of one's own: a shell that keeps its directory and variables, files, processes and ports. */
export class Session extends Files {
  /** The session as the daemon described it last; see `refresh`. */
  info: types.SessionInfo;
  readonly processes: Processes;
  readonly ports: Ports;

  /** @internal */
  constructor(transport: Transport, info: types.SessionInfo) {
    super(transport, `/v1/sessions/${encodeURIComponent(info.id)}`);
    this.info = info;
    this.processes = new Processes(transport, this.path);
    this.ports = new Ports(transport, this.path);
  }

  get id(): string {
    return this.info.id;
  }

  /**
   * Runs shell code in the session's shell and gives what came of it. Directory, variables and background jobs stay for
   * the next command. That a command fails or is out of time is a result: see `exitCode` and `cause`. An abort of `signal`
   * ends the command.
   */
  async exec(cmd: string, options: types.ExecOptions = {}): Promise<types.ExecResult> {
    const own = { ...options, execId: options.execId ?? newExecId() };
    return untilAborted(this.#started(own), () => {
      if ((own.timeoutMs ?? 0) > longExecMs) {
        return this.#execLong(cmd, own);
      }
      const { signal, ...rest } = own;
      return this.transport.json("POST", `${this.path}/exec`, { json: { cmd, ...rest }, signal });
    });
  }

  /**
   * Runs shell code and gives its output as it comes. A connection that breaks is taken up again. An abort of `signal` ends
   * the command; to leave the loop lets it go on.
   */
  execStream(cmd: string, options: types.ExecOptions = {}): AsyncGenerator<types.ExecEvent, void, undefined> {
    const own = { ...options, execId: options.execId ?? newExecId() };
    return streamUntilAborted(this.#started(own), this.#follow(cmd, own));
  }

  /** Follows a command or process that is there, from the first byte of its output that is kept. */
  attach(execId: string, options: types.CallOptions & { rawOutput?: boolean | undefined } = {}): AsyncGenerator<types.ExecEvent, void, undefined> {
    return follow(this.transport, this.path, () => attach(this.transport, this.path, execId, options), options);
  }

  /**
   * Runs code in the session's default context of a language. Variables, imports and functions stay from one call to the
   * next, and what the code shows comes back as data. That code fails is a result: see `cause` and `error`.
   */
  async runCode(code: string, options: types.RunCodeOptions = {}): Promise<CodeRun> {
    return runCode(this.transport, this.path, `${this.path}/run-code`, code, options);
  }

  /** Starts a kernel of the image, and gives its context when it is ready. */
  async createContext(language: string, options: types.CreateContextOptions = {}): Promise<CodeContext> {
    const { signal, ...rest } = options;
    const info = await this.transport.json<types.ContextInfo>("POST", `${this.path}/contexts`, { json: { language, ...rest }, signal });
    return new CodeContext(this.transport, this.path, info.contextId, info);
  }

  /** The contexts that run or ended not long ago, oldest first. */
  async contexts(options: types.CallOptions = {}): Promise<CodeContext[]> {
    const infos = await this.transport.json<types.ContextInfo[]>("GET", `${this.path}/contexts`, options);
    return infos.map((info) => new CodeContext(this.transport, this.path, info.contextId, info));
  }

  /** A context by its id or name. It is not asked whether it is there. */
  context(id: string): CodeContext {
    return new CodeContext(this.transport, this.path, id);
  }

  /** The commands and processes that run or ended not long ago, oldest first. `processes.get` takes up any of them. */
  async execs(options: types.CallOptions = {}): Promise<types.ExecRecord[]> {
    return this.transport.json("GET", `${this.path}/execs`, options);
  }

  /** The session's shells, by name. */
  async shells(options: types.CallOptions = {}): Promise<types.Shell[]> {
    return this.transport.json("GET", `${this.path}/shells`, options);
  }

  /** Ends a shell with all that it started. The next command that names it gets a new one. */
  async closeShell(name: string, options: types.CallOptions = {}): Promise<void> {
    await this.transport.json("DELETE", `${this.path}/shells/${encodeURIComponent(name)}`, options);
  }

  /** Runs a program, a login shell without one, on a terminal of its own, and attaches to it. `signal` detaches. */
  async openTerminal(options: types.TerminalOptions = {}): Promise<Terminal> {
    return Terminal.open(this.transport, this.path, options);
  }

  /** Attaches to a terminal, or a process with one, that is there. `signal` detaches. */
  async attachTerminal(id: string, options: types.AttachTerminalOptions = {}): Promise<Terminal> {
    return Terminal.open(this.transport, this.path, options, id);
  }

  /** The changes in a directory. They are all told behind the event `ready`. */
  watch(path = ".", options: types.CallOptions & { recursive?: boolean | undefined; user?: string | undefined } = {}): AsyncGenerator<types.WatchEvent, void, undefined> {
    return watch(this.transport, this.path, path, options);
  }

  /** Asks for the session as it is now. */
  async refresh(options: types.CallOptions = {}): Promise<types.SessionInfo> {
    return this.#become(await this.transport.json("GET", this.path, options));
  }

  /** Changes how long the session lives, what happens when it is idle, and its labels. */
  async update(options: types.UpdateSessionOptions): Promise<types.SessionInfo> {
    const { signal, ...json } = options;
    return this.#become(await this.transport.json("PATCH", this.path, { json, signal, repeatable: true }));
  }

  /** Counts as activity, and does nothing else. */
  async heartbeat(options: types.CallOptions = {}): Promise<void> {
    await this.#control("heartbeat", options);
  }

  /** What the session used over its life: every 10 seconds of the last hour, every minute of the last day. */
  async statsHistory(options: types.StatsHistoryOptions = {}): Promise<types.StatsHistory> {
    const { signal, ...query } = options;
    return this.transport.json("GET", `${this.path}/stats/history`, { query: { ...query, since: query.since?.toISOString() }, signal });
  }

  /** What the session uses, measured from outside. */
  async stats(options: types.CallOptions = {}): Promise<types.SessionStats> {
    return this.transport.json("GET", `${this.path}/stats`, options);
  }

  /** What it may reach, and its secrets without their values. `info` keeps the answer. */
  async network(options: types.CallOptions = {}): Promise<types.Network> {
    return this.#reach(await this.transport.json("GET", `${this.path}/network`, options));
  }

  /**
   * Replaces what it may reach, from now on: connections that are not allowed any more are cut. What is left out is not
   * kept, but for secrets. What `network` gave may be changed and given back.
   */
  async setNetwork(network: types.NetworkOptions, options: types.CallOptions = {}): Promise<types.Network> {
    return this.#reach(await this.transport.json("PUT", `${this.path}/network`, { json: networkBody(network), ...options, repeatable: true }));
  }

  /** Adds to what it may reach: entries as in `allow`. A session of mode none gets mode allow. */
  async allowNetwork(entries: string[], options: types.CallOptions = {}): Promise<types.Network> {
    return this.#reach(await this.transport.json("POST", `${this.path}/network/allow`, { json: { entries }, ...options, repeatable: true }));
  }

  /** What its network decided lately, oldest first; behind `sinceSeq`, the `nextSeq` of a log before. */
  async networkLog(options: types.NetworkLogOptions = {}): Promise<types.NetworkLog> {
    const { signal, ...query } = options;
    return this.transport.json("GET", `${this.path}/network/log`, { query, signal });
  }

  /**
   * What its network decides, from what is kept or behind `sinceSeq` on, until the session ends. It goes on over a stop and
   * a start. A connection that breaks is taken up again.
   */
  followNetworkLog(options: Omit<types.NetworkLogOptions, "limit"> = {}): AsyncGenerator<types.NetworkEvent, void, undefined> {
    return followLog(this.transport, `${this.path}/network/log/stream`, options);
  }

  /** Stops the programs where they are, with their memory. The next command or file wakes them, unless `autoResume` is off. */
  async pause(options: types.CallOptions & { memory?: "ram" | "disk" | undefined } = {}): Promise<types.SessionInfo> {
    const { signal, memory } = options;
    return this.#become(await this.transport.json("POST", `${this.path}/pause`, { json: { memory }, signal, repeatable: true }));
  }

  async resume(options: types.CallOptions = {}): Promise<types.SessionInfo> {
    return this.#control("resume", options);
  }

  /** Ends all programs and keeps all files. */
  async stop(options: types.CallOptions = {}): Promise<types.SessionInfo> {
    return this.#control("stop", options);
  }

  /** Boots a stopped session on its files. */
  async start(options: types.CallOptions = {}): Promise<types.SessionInfo> {
    return this.#control("start", options);
  }

  /**
   * Saves files as they are at one moment. `createSession({ restoreSnapshotId })` begins with them. All files are saved,
   * unless `options` say less; where the driver cannot tell what was changed outside /workspace, those below it. The
   * snapshot's `scope` says which.
   */
  async snapshot(options: types.SnapshotOptions = {}): Promise<types.Snapshot> {
    const { signal, idempotencyKey, ...given } = options;
    const json = given.scope ? given : { ...given, scope: "sandbox", fallback: "workspace" };
    return this.transport.json("POST", `${this.path}/snapshots`, { json, signal, idempotencyKey: idempotencyKey ?? newKey() });
  }

  /**
   * Makes `count` sessions, one if it is not given, that begin with this one's files as they are at one moment. Processes
   * and shells are not copied. All are made or none.
   */
  async fork(options: types.ForkOptions = {}): Promise<Session[]> {
    const { signal, idempotencyKey, ...json } = options;
    const forked = await this.transport.json<schemas.SchemaForked>("POST", `${this.path}/fork`, { json, signal, idempotencyKey: idempotencyKey ?? newKey() });
    return forked.sessions.map((session) => new Session(this.transport, session));
  }

  /** Ends the session and removes its files. To repeat it is no error. */
  async destroy(options: types.CallOptions = {}): Promise<void> {
    await this.transport.json("DELETE", this.path, options);
  }

  /** Destroys the session at the end of an `await using` block. */
  async [asyncDispose](): Promise<void> {
    await this.destroy();
  }

  async #control(verb: string, options: types.CallOptions): Promise<types.SessionInfo> {
    // The same again is no error of any of these.
    return this.#become(await this.transport.json("POST", `${this.path}/${verb}`, { ...options, repeatable: true }));
  }

  #become(session: types.SessionInfo): types.SessionInfo {
    this.info = session;
    return session;
  }

  #reach(network: types.Network): types.Network {
    this.info = { ...this.info, network, networkMode: network.mode };
    return network;
  }

  #started({ execId, signal }: types.ExecOptions & { execId: string }): Started {
    return { transport: this.transport, sessionPath: this.path, execId, signal };
  }

  #follow(cmd: string, options: types.ExecOptions): AsyncGenerator<types.ExecEvent, void, undefined> {
    const { signal, ...rest } = options;
    const open = () => this.transport.response("POST", `${this.path}/exec/stream`, { json: { cmd, ...rest }, signal });
    return follow(this.transport, this.path, open, options);
  }

  /**
   * #execLong starts the command as a stream, to learn its id, and asks for its record until it has ended. With onDisconnect
   * "kill" the stream is read to its end, since to leave it ends the command.
   */
  async #execLong(cmd: string, options: types.ExecOptions): Promise<types.ExecResult> {
    const { signal, rawOutput } = options;
    let execId = "";
    for await (const event of this.#follow(cmd, options)) {
      if (event.type === "start") execId = event.execId;
      if (options.onDisconnect !== "kill") break;
    }
    for (;;) {
      const query = { waitMs, rawOutput };
      const record = await this.transport.json<types.ExecDetail>("GET", `${this.path}/execs/${execId}`, { query, signal });
      if (record.state === "ended") {
        return record as types.ExecResult;
      }
    }
  }
}
