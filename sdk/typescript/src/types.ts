import type * as schemas from "./schemas.js";

/** Options of every call. */
export interface CallOptions {
  /** Ends the call. What it began in the sandbox goes on. */
  signal?: AbortSignal | undefined;
}

/** Allows undefined where a field may be left out. */
type Loose<T> = { [K in keyof T]: undefined extends T[K] ? T[K] | undefined : T[K] };

/** A session as the daemon describes it. Times are RFC 3339 in UTC. */
export interface SessionInfo extends schemas.SchemaSession {}
/** What a session used a few seconds ago. */
export interface SessionUsage extends schemas.SchemaSessionUsage {}
export interface SessionStats extends schemas.SchemaStats {}
export interface Limits extends schemas.SchemaLimits {}
export interface Workspace extends schemas.SchemaWorkspace {}
/** The daemon's version, defaults and limits. */
export interface Info extends schemas.SchemaInfo {}

export interface CreateSessionOptions extends CallOptions, Partial<Loose<schemas.SchemaCreateRequest>> {
  /** The same key with the same options gives the same session. Without it, each call has one of its own. */
  idempotencyKey?: string | undefined;
}
export interface ForkOptions extends CallOptions, Partial<Loose<schemas.SchemaForkRequest>> {
  /** The same key with the same options gives the same sessions. Without it, each call has one of its own. */
  idempotencyKey?: string | undefined;
}
/** Files of a session at one moment. */
export interface ListSessionsOptions extends CallOptions {
  includeEnded?: boolean | undefined;
  /** Whose sessions: `workflow:run-1`. */
  scope?: string | undefined;
  /** One of these. */
  status?: SessionInfo["status"][] | undefined;
  /** Its name or digest. */
  image?: string | undefined;
  /** `name`, or `name=value`; all of them. */
  label?: string[] | undefined;
  owner?: string | undefined;
  /** Only those of the key's own owner; an admin gets those of all without it. */
  mine?: boolean | undefined;
  /** A text in the id, name, image or labels. */
  search?: string | undefined;
  /** With a minus the other way round; `created` without it. */
  sort?: "created" | "-created" | "activity" | "-activity" | "name" | "-name" | undefined;
  /** Of a page, at most 1000; all without it. */
  limit?: number | undefined;
  /** The `cursor` of the last session of the page before. */
  after?: string | undefined;
  /** With what each used a few seconds ago. */
  usage?: boolean | undefined;
}
export interface StatsSample extends schemas.SchemaStatsSample {}
/** What a session used over its life, oldest first; where it did not run there is a hole. */
export interface StatsHistory extends schemas.SchemaStatsHistory {}
export interface StatsHistoryOptions extends CallOptions {
  /** Only samples from then on. */
  since?: Date | undefined;
  /** Seconds between samples: 10, of the last hour, or 60, of the last day; the finest since `since` without it. */
  step?: 10 | 60 | undefined;
}
/** How full the host was at a time, and what the daemon did in the `seconds` before. */
export interface HostSample extends schemas.SchemaHostSample {}
/** How full the host was, oldest first; where the daemon did not run there is a hole. */
export interface HostHistory extends schemas.SchemaHostHistory {}
export interface HostFinding extends schemas.SchemaHostFinding {}
/** What is wrong with the host and the daemon's data, the gravest first. */
export interface HostFindings extends schemas.SchemaHostFindings {}
export interface AuditEntry extends schemas.SchemaAuditEntry {}
export interface AuditPage extends schemas.SchemaAuditPage {}
export interface ListAuditOptions extends CallOptions {
  /** `nextBefore` of the page before. */
  before?: number | undefined;
  /** At most 1000; 100 without it. */
  limit?: number | undefined;
  since?: Date | undefined;
  until?: Date | undefined;
  owner?: string | undefined;
  /** The id of a session that it was about. */
  session?: string | undefined;
  /** Such as `POST /v1/sessions`. */
  route?: string | undefined;
  /** Only those with a status of 400 and more. */
  failed?: boolean | undefined;
  /** Nothing that only looks, listens or asks again. */
  changes?: boolean | undefined;
}
/** A context as it was when the daemon was asked. */
export interface ContextInfo extends schemas.SchemaCodeContext {}
export interface CreateContextOptions extends CallOptions, Partial<Loose<Omit<schemas.SchemaContextRequest, "language">>> {}
/** What came of code. */
export interface CodeRunInfo extends schemas.SchemaRunResult {}
/** One thing that code displayed, in several forms. */
export interface CodeResult extends schemas.SchemaResult {}
/** An exception that code raised. */
export interface CodeError extends schemas.SchemaRunError {}
/** The beginning of a data frame. */
export interface CodeTable extends schemas.SchemaTable {}
/** A figure as numbers. */
export interface CodeChart extends schemas.SchemaChart {}
/** Who is told what code shows while it runs; its end has all of it in any case. */
export interface RunCallbacks {
  onStart?: ((ids: { contextId: string; runId: string }) => void) | undefined;
  onStdout?: ((text: string) => void) | undefined;
  onStderr?: ((text: string) => void) | undefined;
  onResult?: ((result: CodeResult) => void) | undefined;
  /** A result takes the place of the one with its `displayId`. */
  onUpdate?: ((result: CodeResult) => void) | undefined;
  /** What came before is not shown any more. */
  onClear?: (() => void) | undefined;
  onError?: ((error: CodeError) => void) | undefined;
}
export interface RunOptions extends CallOptions, RunCallbacks {
  /** From when it begins. It is interrupted then, and killed if that is of no use. */
  timeoutMs?: number | undefined;
}
export interface RunCodeOptions extends RunOptions {
  /** python without it. */
  language?: string | undefined;
}
/** A tool as models are told of it, with the names of the wire. */
export interface AgentToolDefinition {
  name: string;
  description: string;
  input_schema: Record<string, unknown>;
}
/** What a tool of the daemon's says to the model. */
export interface AgentToolResult {
  text: string;
  /** The tool could not do it; the text says what to do instead. */
  isError: boolean;
  /** Pictures, as those of sandbox_run_code, for models that see. */
  images: { mediaType: string; base64: string }[];
}
/** What `changeSessions` does with each session. */
export type BulkAction = "stop" | "start" | "pause" | "resume" | "destroy";
/** What came of one session. */
export interface BulkResult extends schemas.SchemaBulkResult {}
export interface CompletedScope extends schemas.SchemaCompleted {}
export interface CompleteScopeOptions extends CallOptions, Partial<Loose<schemas.SchemaCompleteRequest>> {}
export interface Snapshot extends schemas.SchemaSnapshot {}
export interface Image extends schemas.SchemaImage {}
export interface ImageJob extends schemas.SchemaImageJob {}
export interface BuildImageOptions extends CallOptions, Partial<Loose<Omit<schemas.SchemaBuildRequest, "name" | "files">>> {
  files?: Record<string, string | Uint8Array> | undefined;
}
export interface ImageProgress extends schemas.SchemaProgress {}
export interface SnapshotOptions extends CallOptions, Partial<Loose<schemas.SchemaSnapshotRequest>> {
  /** The same key with the same options gives the same snapshot. Without it, each call has one of its own. */
  idempotencyKey?: string | undefined;
}
/** What a session is to reach. A change that leaves `secrets` out keeps those that there are. */
export interface NetworkOptions extends Loose<schemas.SchemaNetworkRequest> {}
/** What a session may reach. */
export interface Network extends schemas.SchemaNetwork {}
/** One decision about a session's network. */
export interface NetworkEvent extends schemas.SchemaNetworkEvent {}
/** Decisions about a session's network, oldest first: pass `nextSeq` as `sinceSeq` to go on. */
export interface NetworkLog extends schemas.SchemaNetworkLog {}
/** Something that a session's network refused. */
export interface NetworkDenial extends schemas.SchemaNetworkDenial {}
export interface NetworkLogOptions extends CallOptions {
  sinceSeq?: number | undefined;
  /** How many events to give at most. */
  limit?: number | undefined;
}
/** Something that happened. Its `type` says which of the other fields it has; docs/events.md has all types. */
export interface SandboxEvent extends schemas.SchemaEvent {}
export interface EventsOptions extends CallOptions {
  /** The `id` of the last event that is known. Without it, what happens from now on. */
  since?: string | undefined;
  /** What events are about. Without it, all that the key may see. */
  types?: ("session" | "exec" | "network" | "workspace" | "snapshot" | "image" | "pool" | "account")[] | undefined;
  /** Only about this session: its id or name. */
  session?: string | undefined;
  /** For admins: only of this owner. */
  owner?: string | undefined;
}
/** A stored secret, without its value. */
export interface Secret extends schemas.SchemaSecret {}
/** A secret to store. One of `header` and `query` is needed. */
export interface SecretOptions extends CallOptions, Loose<schemas.SchemaSecretRequest> {}

/** Somebody who has keys. */
export interface User extends schemas.SchemaUser {}
/** An API key, without its text. */
export interface Key extends schemas.SchemaKey {}
/** An API key that was just made, with its text. */
export interface NewKey extends schemas.SchemaNewKey {}
/** Whose the client's key is, and what it may do. */
export interface Me extends schemas.SchemaMe {}
/** What an owner used in a month, and has and may have now. */
export interface OwnerUsage extends schemas.SchemaOwnerUsage {}
export interface UsageOptions extends CallOptions {
  /** A month of UTC, as `2026-11`; the current one if it is left out. */
  month?: string | undefined;
}
/** What all owners use. */
export interface OwnersUsage extends schemas.SchemaOwnersUsage {}
/** What an owner used on a day. */
export interface UsageDay extends schemas.SchemaUsageDay {}
export interface UsageDaysOptions extends CallOptions {
  /** The first day of UTC, as `2026-11-01`; 30 days before `until` without it. */
  since?: string | undefined;
  /** The last day; today without it. */
  until?: string | undefined;
  /** For admins: only of this owner. */
  owner?: string | undefined;
}
/** That somebody looked into what is the client's, or made a key or set a password in its name. */
export interface Inspection extends schemas.SchemaInspection {}
export interface CreateUserOptions extends CallOptions, Loose<Omit<schemas.SchemaUserRequest, "name">> {}
/** What to change of a user: what is left out stays. */
export interface UpdateUserOptions extends CallOptions, Loose<schemas.SchemaUserUpdateRequest> {}
export interface CreateKeyOptions extends CallOptions, Loose<schemas.SchemaKeyRequest> {}
export interface UpdateSessionOptions extends CallOptions, Partial<Loose<schemas.SchemaUpdateRequest>> {}
export interface CreateWorkspaceOptions extends CallOptions, Partial<Loose<schemas.SchemaWorkspaceRequest>> {}

export interface ExecOptions extends CallOptions, Partial<Loose<Omit<schemas.SchemaExecRequest, "cmd">>> {}
/** How a command ended, and what it printed. That it failed is a result, too: see `exitCode` and `cause`. */
export interface ExecResult extends schemas.SchemaExecResponse {}
/** The record of a command or process. */
export interface ExecRecord extends schemas.SchemaExecRecord {}
/** A record with the output until now. */
export interface ExecDetail extends schemas.SchemaExecDetail {}

/** How a command or process ended, as a stream tells it. */
export interface StreamEnd extends Omit<ExecResult, "output" | "outputBase64" | "outputEncoding" | "truncated"> {}
export interface StartEvent {
  type: "start";
  execId: string;
}
/** A piece of output. `bytes` are what was written, `text` shows U+FFFD for what is not UTF-8. */
export interface ChunkEvent {
  type: "chunk";
  text: string;
  bytes: Uint8Array;
  /** Of a process. */
  stream?: "stdout" | "stderr" | "output";
  /** When the daemon sent it. */
  timestamp: string;
}
export interface DoneEvent extends StreamEnd {
  type: "done";
}
/** What a stream of output tells: start, chunks, done. */
export type ExecEvent = StartEvent | ChunkEvent | DoneEvent;

/** One of a session's shells. */
export interface Shell extends schemas.SchemaShell {}
export interface PoolStatus extends schemas.SchemaPoolStatus {}
export interface AttachTerminalOptions extends CallOptions {
  rows?: number | undefined;
  cols?: number | undefined;
  /** Where in all that it showed to begin: `Terminal.seq`. Without it, with its last 64 KiB. */
  sinceSeq?: number | undefined;
}
export interface TerminalOptions extends Omit<AttachTerminalOptions, "sinceSeq"> {
  /** The kind of the user's terminal, as xterm-256color. */
  term?: string | undefined;
  /** A program and its arguments, instead of a login shell. */
  command?: string[] | undefined;
}

type ProcessRequest = Omit<schemas.SchemaProcessRequest, "cmd" | "background" | "stdinBase64" | "stdin">;
export interface ProcessOptions extends CallOptions, Partial<Loose<ProcessRequest>> {
  /** What the process reads. Without it, nothing. */
  stdin?: string | Uint8Array | undefined;
}
export interface RunOptions extends ProcessOptions {
  /** Gets each piece of standard output as it comes; of a terminal and of merged outputs all. */
  onStdout?: ((text: string) => void | Promise<void>) | undefined;
  /** Gets each piece of standard error as it comes. */
  onStderr?: ((text: string) => void | Promise<void>) | undefined;
}
/** A process that has ended, with its output. */
export interface ProcessResult extends schemas.SchemaProcessResponse {}
/** Output piece by piece: pass `nextSeq` as `sinceSeq` to go on. */
export interface ProcessOutput extends schemas.SchemaOutputResponse {}
export interface OutputOptions extends CallOptions {
  sinceSeq?: number | undefined;
  maxChunks?: number | undefined;
  /** Wait so long for the first byte or the end. */
  waitMs?: number | undefined;
}

export interface Entry extends schemas.SchemaEntry {}
export interface Stat extends schemas.SchemaStat {}
export interface Match extends schemas.SchemaMatch {}
export interface EditResult extends schemas.SchemaEditResponse {}
export interface WriteOptions extends CallOptions {
  /** In octal, as "0755". */
  mode?: string | undefined;
  /** Refuse to replace a file. */
  create?: boolean | undefined;
  /** Add to the end of the file, which is not atomic. */
  append?: boolean | undefined;
  /** The time that the file gets, instead of now. */
  modifiedAt?: Date | undefined;
  /**
   * Replace the file only if this is its `etag` of `stat`, or one that a write gave; "*" is any file that is there. Otherwise
   * PreconditionFailedError, and nothing changes.
   */
  ifMatch?: string | undefined;
}
export interface ReadOptions extends CallOptions {
  /** Where to begin, in bytes. */
  offset?: number | undefined;
  /** How much to read at most. */
  maxBytes?: number | undefined;
}
export interface GrepOptions extends CallOptions {
  path?: string | undefined;
  literal?: boolean | undefined;
  ignoreCase?: boolean | undefined;
  /** A glob that the names of files must match. */
  include?: string | undefined;
  hidden?: boolean | undefined;
  /** Lines of context. */
  before?: number | undefined;
  after?: number | undefined;
  limit?: number | undefined;
}
/** A change in a directory that is watched. Behind `overflow` some are lost: look again. */
export interface WatchEvent {
  type: "ready" | "create" | "write" | "remove" | "rename" | "chmod" | "overflow";
  path?: string;
  /** The name before, of a rename. */
  from?: string;
  /** What it is: file, dir, ... */
  kind?: string;
}
export type ArchiveFormat = "tar" | "tar.gz" | "tar.zst" | "zip";

export interface Port extends schemas.SchemaPort {}
/** A token that opens one port, and the address that has it. */
export interface Preview extends schemas.SchemaPreview {}
