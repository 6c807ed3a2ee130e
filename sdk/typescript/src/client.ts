import { SandkastenError } from "./errors.js";
import { Files } from "./files.js";
import { bodyOf } from "./follow.js";
import type * as schemas from "./schemas.js";
import { Session } from "./session.js";
import type { WebSocketConstructor } from "./socket.js";
import { Transport, newKey } from "./transport.js";
import type * as types from "./types.js";

export interface ClientOptions {
  /** The daemon's address. Without it, SANDKASTEN_URL of the environment, or http://127.0.0.1:8787. */
  baseUrl?: string | undefined;
  /** Without it, SANDKASTEN_API_KEY of the environment. */
  apiKey?: string | undefined;
  /** How often a request that may be repeated is, and how often a stream that makes no progress is taken up. 2 without it. */
  maxRetries?: number | undefined;
  /** Used instead of the global fetch. */
  fetch?: typeof fetch | undefined;
  /** Used instead of the global WebSocket, which Node has since version 22: that of the package ws, for example. */
  webSocket?: WebSocketConstructor | undefined;
}

/** The client of one daemon. */
export class SandboxClient {
  readonly #transport: Transport;

  constructor(options: ClientOptions = {}) {
    const baseUrl = options.baseUrl ?? variable("SANDKASTEN_URL") ?? "http://127.0.0.1:8787";
    const apiKey = options.apiKey ?? variable("SANDKASTEN_API_KEY");
    if (!apiKey) {
      throw new SandkastenError("no API key: pass apiKey or set SANDKASTEN_API_KEY; the daemon keeps its own in the file api_key of its data directory");
    }
    this.#transport = new Transport({
      baseUrl: baseUrl.replace(/\/+$/, ""),
      apiKey,
      maxRetries: options.maxRetries ?? 2,
      // Called on the global object, without which browsers refuse it.
      fetch: options.fetch ?? ((...args) => globalThis.fetch(...args)),
      webSocket: options.webSocket ?? (globalThis.WebSocket as WebSocketConstructor | undefined),
    });
  }

  /** Makes a session, which can run commands when this returns. It lives until it expires or is destroyed. */
  async createSession(options: types.CreateSessionOptions = {}): Promise<Session> {
    const { signal, idempotencyKey, ...json } = options;
    const session = await this.#transport.json<types.SessionInfo>("POST", "/v1/sessions", {
      json,
      signal,
      idempotencyKey: idempotencyKey ?? newKey(),
    });
    return new Session(this.#transport, session);
  }

  /** A session by its id. */
  async getSession(id: string, options: types.CallOptions = {}): Promise<Session> {
    const session = await this.#transport.json<types.SessionInfo>("GET", `/v1/sessions/${encodeURIComponent(id)}`, options);
    return new Session(this.#transport, session);
  }

  /** This key's sessions that have not ended, oldest first; with `includeEnded` also those that ended not long ago. */
  async listSessions(options: types.CallOptions & { includeEnded?: boolean | undefined } = {}): Promise<Session[]> {
    const { signal, includeEnded } = options;
    const sessions = await this.#transport.json<types.SessionInfo[]>("GET", "/v1/sessions", { query: { includeEnded }, signal });
    return sessions.map((session) => new Session(this.#transport, session));
  }

  /** Makes an empty workspace. */
  async createWorkspace(options: types.CreateWorkspaceOptions = {}): Promise<types.Workspace> {
    const { signal, ...json } = options;
    return this.#transport.json("POST", "/v1/workspaces", { json, signal });
  }

  async getWorkspace(id: string, options: types.CallOptions = {}): Promise<types.Workspace> {
    return this.#transport.json("GET", workspacePath(id), options);
  }

  /** This key's workspaces, oldest first. */
  async listWorkspaces(options: types.CallOptions = {}): Promise<types.Workspace[]> {
    const list = await this.#transport.json<schemas.SchemaWorkspaces>("GET", "/v1/workspaces", options);
    return list.workspaces;
  }

  /** Deletes a workspace with all that is in it. With `force` also the sessions that have it. */
  async deleteWorkspace(id: string, options: types.CallOptions & { force?: boolean | undefined } = {}): Promise<void> {
    const { signal, force } = options;
    await this.#transport.json("DELETE", workspacePath(id), { query: { force }, signal });
  }

  /** The files of a workspace, without a session. */
  workspaceFiles(id: string): Files {
    return new Files(this.#transport, workspacePath(id));
  }

  /** This key's snapshots, oldest first; `sessionId` and `name` select some. */
  async listSnapshots(options: types.CallOptions & { sessionId?: string | undefined; name?: string | undefined } = {}): Promise<types.Snapshot[]> {
    const { signal, ...query } = options;
    const list = await this.#transport.json<schemas.SchemaSnapshots>("GET", "/v1/snapshots", { query, signal });
    return list.snapshots;
  }

  async getSnapshot(id: string, options: types.CallOptions = {}): Promise<types.Snapshot> {
    return this.#transport.json("GET", snapshotPath(id), options);
  }

  /** Deletes a snapshot. Sessions that began with it keep their files. */
  async deleteSnapshot(id: string, options: types.CallOptions = {}): Promise<void> {
    await this.#transport.json("DELETE", snapshotPath(id), options);
  }

  /** A snapshot as an archive, which `uploadSnapshot` takes, here or at another daemon. */
  async downloadSnapshot(id: string, options: types.CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return bodyOf(await this.#transport.response("GET", `${snapshotPath(id)}/download`, options));
  }

  /** Makes a snapshot of an archive. */
  async uploadSnapshot(data: Uint8Array | Blob, options: types.CallOptions & { name?: string | undefined; label?: string | undefined } = {}): Promise<types.Snapshot> {
    const { signal, ...query } = options;
    return this.#transport.json("POST", "/v1/snapshots", { query, body: data as BodyInit, headers: { "Content-Type": "application/x-tar" }, signal });
  }

  /** What is ready for sessions that are about to come. */
  async poolStatus(options: types.CallOptions = {}): Promise<types.PoolStatus> {
    return this.#transport.json("GET", "/v1/pool/status", options);
  }

  /** The daemon's version, defaults and limits. */
  async info(options: types.CallOptions = {}): Promise<types.Info> {
    return this.#transport.json("GET", "/v1/info", options);
  }
}

function snapshotPath(id: string): string {
  return `/v1/snapshots/${encodeURIComponent(id)}`;
}

function workspacePath(id: string): string {
  return `/v1/workspaces/${encodeURIComponent(id)}`;
}

/** variable reads the environment where there is one: Node, Bun and Deno. */
function variable(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}
