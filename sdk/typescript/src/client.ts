import { toBase64 } from "./bytes.js";
import { ConnectionError, SandkastenError } from "./errors.js";
import { Files } from "./files.js";
import { bodyOf, followEvents } from "./follow.js";
import { fromWire } from "./names.js";
import type * as schemas from "./schemas.js";
import { Session, networkBody } from "./session.js";
import type { WebSocketConstructor } from "./socket.js";
import { serverEvents } from "./sse.js";
import { toolAnswer, toolCall } from "./toolcall.js";
import { Transport, lost, newKey, parse } from "./transport.js";
import type * as types from "./types.js";

export interface ClientOptions {
  /** The daemon's address. Without it, SANDKASTEN_URL of the environment, or http://127.0.0.1:8787. */
  baseUrl?: string | undefined;
  /** Without it, SANDKASTEN_API_KEY of the environment. */
  apiKey?: string | undefined;
  /** How often a request that may be repeated is at least, and how often a stream that makes no progress is taken up. 2 without it; with 0 nothing is repeated. */
  maxRetries?: number | undefined;
  /**
   * For how many milliseconds a request or a stream is repeated that found no daemon, or one that was not ready, so that it
   * outlives a restart: 30000 without it. While nothing has ever answered at the address it is 3000 at most.
   */
  retryMs?: number | undefined;
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
    // In a page it may be a path of the page's own server.
    if (!/^(https?:\/\/[^/?#]|\/)/.test(baseUrl)) {
      throw new SandkastenError(`baseUrl must be like http://127.0.0.1:8787, not ${JSON.stringify(baseUrl)}`);
    }
    if (/[^!-~\u00a1-\u00ff]/.test(apiKey)) {
      throw new SandkastenError("the API key has characters that no header can have");
    }
    this.#transport = new Transport({
      baseUrl: baseUrl.replace(/\/+$/, ""),
      apiKey,
      maxRetries: options.maxRetries ?? 2,
      retryMs: options.retryMs ?? 30_000,
      // Called on the global object, without which browsers refuse it.
      fetch: options.fetch ?? ((...args) => globalThis.fetch(...args)),
      webSocket: options.webSocket ?? (globalThis.WebSocket as WebSocketConstructor | undefined),
    });
  }

  /** Makes a session, which can run commands when this returns. It lives until it expires or is destroyed. */
  async createSession(options: types.CreateSessionOptions = {}): Promise<Session> {
    const { signal, idempotencyKey, ...rest } = options;
    const json = rest.network ? { ...rest, network: networkBody(rest.network) } : rest;
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

  /** This key's sessions that have not ended, oldest first; with `includeEnded` also those that ended not long ago. The options select, sort and make pages. */
  async listSessions(options: types.ListSessionsOptions = {}): Promise<Session[]> {
    const { signal, ...query } = options;
    const sessions = await this.#transport.json<types.SessionInfo[]>("GET", "/v1/sessions", { query, signal });
    return sessions.map((session) => new Session(this.#transport, session));
  }

  /**
   * What happens, as it happens: sessions, commands and more of what the key may see. It begins with an event of type
   * `ready`; what is listed after it is complete. A connection that breaks is taken up again, and where events are missing
   * one of type `gap` says in `reload` what to list again. It goes on until `signal` ends it, or the caller leaves.
   */
  events(options: types.EventsOptions = {}): AsyncGenerator<types.SandboxEvent, void, undefined> {
    return followEvents(this.#transport, options);
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

  /** The images that the key's sessions may use, newest first. */
  async listImages(options: types.CallOptions = {}): Promise<types.Image[]> {
    const list = await this.#transport.json<schemas.SchemaImages>("GET", "/v1/images", options);
    return list.images;
  }

  /** The image of a name or digest. */
  async getImage(name: string, options: types.CallOptions = {}): Promise<types.Image> {
    return this.#transport.json("GET", `/v1/images/${encodeURIComponent(name)}`, options);
  }

  /** Takes an image's name away, and the image with its last name. Only the daemon's own key may do this, and what else changes images. */
  async deleteImage(name: string, options: types.CallOptions = {}): Promise<void> {
    await this.#transport.json("DELETE", `/v1/images/${encodeURIComponent(name)}`, options);
  }

  /** Has the daemon store the image of a registry; `waitImageJob` follows the job. */
  async pullImage(ref: string, options: types.CallOptions & { name?: string | undefined; insecure?: boolean | undefined } = {}): Promise<types.ImageJob> {
    const { signal, ...rest } = options;
    return this.#startImageJob("pull", { ref, ...rest }, signal);
  }

  /** Has the daemon make an image of a recipe: its text, or else the daemon's recipe of that name. `files` are what the recipe's copy may take, by their paths beside it. */
  async buildImage(name: string, options: types.BuildImageOptions = {}): Promise<types.ImageJob> {
    const { signal, files, ...rest } = options;
    const beside = Object.entries(files ?? {}).map(([path, content]) => ({ path, contentBase64: toBase64(typeof content === "string" ? new TextEncoder().encode(content) : content) }));
    return this.#startImageJob("build", { name, ...rest, ...(beside.length > 0 && { files: beside }) }, signal);
  }

  /** Has the daemon make an image of a session's image and what was changed of its root: of the session as it is, or of a snapshot of scope sandbox. */
  async commitImage(name: string, options: types.CallOptions & { sessionId?: string | undefined; snapshotId?: string | undefined }): Promise<types.ImageJob> {
    const { signal, ...rest } = options;
    return this.#startImageJob("commit", { name, ...rest }, signal);
  }

  /** Makes an image of the tar file of a whole root file system: plain, gzip or zstd. */
  async importImage(name: string, data: Uint8Array | Blob, options: types.CallOptions & { source?: string | undefined } = {}): Promise<types.Image> {
    const { signal, source } = options;
    return this.#transport.json("POST", "/v1/images/import", { query: { name, source }, body: data as BodyInit, headers: { "Content-Type": "application/x-tar" }, signal });
  }

  /** The jobs that the daemon knows, oldest first. */
  async listImageJobs(options: types.CallOptions = {}): Promise<types.ImageJob[]> {
    const list = await this.#transport.json<schemas.SchemaImageJobs>("GET", "/v1/image-jobs", options);
    return list.jobs;
  }

  async getImageJob(id: string, options: types.CallOptions = {}): Promise<types.ImageJob> {
    return this.#transport.json("GET", imageJobPath(id), options);
  }

  /** Ends a job, and gives it as it is then. */
  async cancelImageJob(id: string, options: types.CallOptions = {}): Promise<types.ImageJob> {
    return this.#transport.json("DELETE", imageJobPath(id), options);
  }

  /**
   * Follows a job to its end. One that failed or was canceled is a result, too: its status says which. A connection that
   * breaks is made anew. To leave ends nothing.
   */
  async waitImageJob(id: string, options: types.CallOptions & { onProgress?: ((progress: types.ImageProgress) => void) | undefined } = {}): Promise<types.ImageJob> {
    const { signal, onProgress } = options;
    const patience = this.#transport.patience();
    for (;;) {
      let broken: unknown = new ConnectionError("the stream of the job ended early");
      const response = await this.#transport.response("GET", `${imageJobPath(id)}/events`, { signal });
      try {
        for await (const { event, data } of serverEvents(bodyOf(response))) {
          const body = fromWire(parse(data));
          if (event === "done") return body as types.ImageJob;
          patience.progress();
          onProgress?.(body as types.ImageProgress);
        }
      } catch (error) {
        if (error instanceof SandkastenError) throw error;
        broken = lost(error, signal);
      }
      await patience.resume(broken, signal);
    }
  }

  /** The same request while its job is under way gives that job, so it may be sent again. */
  async #startImageJob(what: string, json: object, signal: AbortSignal | undefined): Promise<types.ImageJob> {
    return this.#transport.json("POST", `/v1/images/${what}`, { json, signal, repeatable: true });
  }

  /**
   * Stores a secret, in the place of the key's of the same name. Sessions refer to it by its name, as `stored` of the secrets
   * of a network. Running sessions have the earlier value until their network is set, they are started or the daemon restarts.
   */
  async setSecret(name: string, options: types.SecretOptions): Promise<types.Secret> {
    const { signal, ...json } = options;
    return this.#transport.json("PUT", secretPath(name), { json, signal, repeatable: true });
  }

  /** A stored secret, without its value. */
  async getSecret(name: string, options: types.CallOptions = {}): Promise<types.Secret> {
    return this.#transport.json("GET", secretPath(name), options);
  }

  /** The key's stored secrets by name, without their values. */
  async listSecrets(options: types.CallOptions = {}): Promise<types.Secret[]> {
    const list = await this.#transport.json<schemas.SchemaSecrets>("GET", "/v1/secrets", options);
    return list.secrets;
  }

  /** Forgets a stored secret. Running sessions have it until their network is set, they are started or the daemon restarts. */
  async deleteSecret(name: string, options: types.CallOptions = {}): Promise<void> {
    await this.#transport.json("DELETE", secretPath(name), options);
  }

  /** Whose the client's key is, and what it may do. */
  async me(options: types.CallOptions = {}): Promise<types.Me> {
    return this.#transport.json("GET", "/v1/me", options);
  }

  /** What the owner of the client's key uses, in `month` of UTC (as `2026-11`) or the current one. */
  async myUsage(options: types.UsageOptions = {}): Promise<types.OwnerUsage> {
    const { signal, month } = options;
    return this.#transport.json("GET", "/v1/me/usage", { query: { month }, signal });
  }

  /** `myUsage` of a user, or of an owner of the daemon's configuration. Only admins may. */
  async userUsage(name: string, options: types.UsageOptions = {}): Promise<types.OwnerUsage> {
    const { signal, month } = options;
    return this.#transport.json("GET", `${userPath(name)}/usage`, { query: { month }, signal });
  }

  /** What all owners use in `month`, with the memory that their sessions use now. Only admins may. */
  async allUsage(options: types.UsageOptions = {}): Promise<types.OwnersUsage> {
    const { signal, month } = options;
    return this.#transport.json("GET", "/v1/usage", { query: { month }, signal });
  }

  /** What was used by day: of the client's owner, and to admins of all owners or of `owner`. */
  async usageDays(options: types.UsageDaysOptions = {}): Promise<types.UsageDay[]> {
    const { signal, ...query } = options;
    const list = await this.#transport.json<schemas.SchemaUsageDays>("GET", "/v1/usage/days", { query, signal });
    return list.days;
  }

  /** `usageDays` as a table, for a spreadsheet. */
  async usageCSV(options: types.UsageDaysOptions = {}): Promise<string> {
    const { signal, ...query } = options;
    const response = await this.#transport.response("GET", "/v1/usage/days", { query: { ...query, format: "csv" }, signal });
    return response.text();
  }

  /** Who looked into what is the client's, or made a key or set a password in its name; the newest first. */
  async listInspections(options: types.CallOptions = {}): Promise<types.Inspection[]> {
    const list = await this.#transport.json<schemas.SchemaInspections>("GET", "/v1/me/inspections", options);
    return list.inspections;
  }

  /** Makes a user, without a key. Only admins may. */
  async createUser(name: string, options: types.CreateUserOptions = {}): Promise<types.User> {
    const { signal, ...rest } = options;
    return this.#transport.json("POST", "/v1/users", { json: { name, ...rest }, signal });
  }

  /** A user. To all but admins other users do not exist. */
  async getUser(name: string, options: types.CallOptions = {}): Promise<types.User> {
    return this.#transport.json("GET", userPath(name), options);
  }

  /** All users by name, or only the client's own if its key is no admin's. */
  async listUsers(options: types.CallOptions = {}): Promise<types.User[]> {
    const list = await this.#transport.json<schemas.SchemaUsers>("GET", "/v1/users", options);
    return list.users;
  }

  /**
   * Changes a user. Users change their own `email` and `password`, with `currentPassword` where the client's key ends,
   * was made by another key, or may less than they do by signing in; the rest is for admins.
   */
  async updateUser(name: string, options: types.UpdateUserOptions): Promise<types.User> {
    const { signal, ...json } = options;
    return this.#transport.json("PATCH", userPath(name), { json, signal, repeatable: true });
  }

  /**
   * Ends a user's keys and removes all that the user owns. Only admins may. It returns after about a second also if something
   * is left: `getUser` tells the state `deleting` then, and is refused with `not_found` when all is gone.
   */
  async deleteUser(name: string, options: types.CallOptions = {}): Promise<void> {
    await this.#transport.json("DELETE", userPath(name), options);
  }

  /**
   * Makes an API key, whose text is in `key` of the answer and nowhere else. Without `user` it is the client's user's, and a
   * child of the client's key: it has at most its scope and life, and is revoked with it. Admins make keys of other users.
   */
  async createKey(options: types.CreateKeyOptions = {}): Promise<types.NewKey> {
    const { signal, ...json } = options;
    return this.#transport.json("POST", "/v1/keys", { json, signal });
  }

  /**
   * Keys, of `user` if one is given: oldest first, with those that have ended. An admin sees all, a key that no other has made
   * those of its user, any other itself and its own.
   */
  async listKeys(options: types.CallOptions & { user?: string | undefined } = {}): Promise<types.Key[]> {
    const { signal, user } = options;
    const list = await this.#transport.json<schemas.SchemaKeys>("GET", "/v1/keys", { query: { user }, signal });
    return list.keys;
  }

  /** Ends a key, those that it has made, and what is under way in their names. */
  async revokeKey(id: string, options: types.CallOptions = {}): Promise<void> {
    await this.#transport.json("DELETE", `/v1/keys/${encodeURIComponent(id)}`, options);
  }

  /** What clients did, the newest first. Others than admins are told of what they did themselves. */
  async listAudit(options: types.ListAuditOptions = {}): Promise<types.AuditPage> {
    const { signal, since, until, ...rest } = options;
    const query = { ...rest, since: since?.toISOString(), until: until?.toISOString() };
    return this.#transport.json("GET", "/v1/audit", { query, signal });
  }

  /** What models are told of the daemon's tools for agents. `scopeTools` of `/ai` is made of it. */
  async agentTools(options: types.CallOptions = {}): Promise<types.AgentToolDefinition[]> {
    const response = await this.#transport.response("GET", "/v1/agent-tools", { query: { format: "anthropic" }, signal: options.signal });
    return JSON.parse(await response.text()) as types.AgentToolDefinition[]; // with the names of the wire, which the tools take
  }

  /** Calls one of them in a scope, and gives what the model is to read, also of what went wrong. */
  async callAgentTool(scope: string, name: string, input: Record<string, unknown>, options: types.CallOptions = {}): Promise<string> {
    return (await this.agentToolResult(scope, name, input, options)).text;
  }

  /** Does so too, and also gives the pictures that the tool made. */
  async agentToolResult(scope: string, name: string, input: Record<string, unknown>, options: types.CallOptions = {}): Promise<types.AgentToolResult> {
    return toolAnswer(await this.#transport.response("POST", "/mcp", toolCall(scope, name, input, options)));
  }

  /**
   * Does the same with up to 1000 sessions, by their ids, names or beginnings of ids, a few at a time. There is a result for
   * each, in the order of `ids`: one that fails holds up no other and throws nothing. To repeat it is no error.
   */
  async changeSessions(action: types.BulkAction, ids: string[], options: types.CallOptions = {}): Promise<types.BulkResult[]> {
    const answer = await this.#transport.json<schemas.SchemaBulkAnswer>("POST", "/v1/sessions/bulk", { json: { action, ids }, signal: options.signal, repeatable: true });
    return answer.results;
  }

  /** Ends the sessions that a scope has, as `workflow:run-1`, now or after a retention. To repeat it is no error. */
  async completeScope(scope: string, options: types.CompleteScopeOptions = {}): Promise<types.CompletedScope> {
    const { signal, ...json } = options;
    const [namespace, ...id] = scope.split(":");
    const path = `/v1/scopes/${encodeURIComponent(namespace ?? "")}/${encodeURIComponent(id.join(":"))}/complete`;
    return this.#transport.json("POST", path, { json, signal });
  }

  /** What is ready for sessions that are about to come. */
  async poolStatus(options: types.CallOptions = {}): Promise<types.PoolStatus> {
    return this.#transport.json("GET", "/v1/pool/status", options);
  }

  /** How full the host was: every 10 seconds of the last hour, every minute of the last day. Only admins may ask. */
  async hostHistory(options: types.StatsHistoryOptions = {}): Promise<types.HostHistory> {
    const { signal, ...query } = options;
    return this.#transport.json("GET", "/v1/host/history", { query: { ...query, since: query.since?.toISOString() }, signal });
  }

  /** What `sandkasten doctor` and `sandkasten fsck` find while the daemon works, the gravest first. It takes some seconds where something is wrong. Only admins may ask. */
  async hostFindings(options: types.CallOptions = {}): Promise<types.HostFindings> {
    return this.#transport.json("GET", "/v1/host/findings", options);
  }

  /** The daemon's version, defaults and limits. */
  async info(options: types.CallOptions = {}): Promise<types.Info> {
    return this.#transport.json("GET", "/v1/info", options);
  }
}

function snapshotPath(id: string): string {
  return `/v1/snapshots/${encodeURIComponent(id)}`;
}

function imageJobPath(id: string): string {
  return `/v1/image-jobs/${encodeURIComponent(id)}`;
}

function secretPath(name: string): string {
  return `/v1/secrets/${encodeURIComponent(name)}`;
}

function userPath(name: string): string {
  return `/v1/users/${encodeURIComponent(name)}`;
}

function workspacePath(id: string): string {
  return `/v1/workspaces/${encodeURIComponent(id)}`;
}

/** variable reads the environment where there is one: Node, Bun and Deno. */
function variable(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}
