// Runs the cases that all SDKs have in common; see sdk/contract/README.md.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as sdk from "@sandkasten/sdk";
import { matches } from "./match.mjs";
import { onClient, onProcess, onSession, toAPI, toSDK } from "./operations.mjs";

const { SANDKASTEN_URL, SANDKASTEN_FLAKY_URL } = process.env;
assert(SANDKASTEN_URL && SANDKASTEN_FLAKY_URL, "there is no daemon: run this with go run ./sdk/contract/run");

const clients = {
  ordinary: new sdk.SandboxClient({ maxRetries: 0 }),
  wrong_key: new sdk.SandboxClient({ apiKey: "wrong", maxRetries: 0 }),
  flaky: new sdk.SandboxClient({ baseUrl: SANDKASTEN_FLAKY_URL }),
};

const classes = {
  400: sdk.InvalidArgumentError, 401: sdk.AuthenticationError, 403: sdk.PermissionDeniedError, 404: sdk.NotFoundError,
  409: sdk.ConflictError, 412: sdk.PreconditionFailedError, 422: sdk.UnprocessableError, 429: sdk.RateLimitError, 501: sdk.UnimplementedError,
};

/** One run of one case. */
class Run {
  unique = Math.random().toString(36).slice(2);
  results = {};
  objects = {};
  workspaces = new Set();
  sessions = new Set();

  async step(step) {
    const { do: name, on, client = "ordinary", key, user, with: given = {}, as, expect, error } = this.#resolve(step);
    const asked = key === undefined ? clients[client] : new sdk.SandboxClient({ apiKey: key, maxRetries: 0 });
    const target = on === undefined ? asked : this.objects[on];
    const operations = on === undefined ? onClient : target instanceof sdk.Process ? onProcess : onSession;
    const call = operations[toSDKName(name)];
    assert(call, `${name} is not known`);
    const workspace = name === "create_workspace" ? given.id : given.workspace_id;
    if (workspace) this.workspaces.add(workspace);
    const pending = (async () => call(user === undefined ? target : target.filesAs(user), toSDK(given)))();
    if (error) {
      await this.#fails(pending, error);
      return;
    }
    const object = await pending;
    const forks = name === "fork" ? object : [];
    for (const session of object instanceof sdk.Session ? [object] : forks) this.sessions.add(session);
    forks.forEach((session, i) => (this.objects[as + i] = session));
    const result = toAPI(describe(object));
    if (as) {
      this.objects[as] = object;
      this.results[as] = result;
    }
    if (expect !== undefined && !matches(expect, result)) {
      assert.fail(`${name}: got ${JSON.stringify(result)?.slice(0, 2000)}, want ${JSON.stringify(expect)}`);
    }
  }

  async #fails(pending, want) {
    const error = await pending.then((result) => assert.fail(`no error but ${JSON.stringify(result)}`), (e) => e);
    assert(error instanceof sdk.APIError, error);
    const { status, code, field, reason, message, requestId, retryAfter } = error;
    const got = { status, code, field, reason, message, request_id: requestId, retry_after: retryAfter };
    if (!matches(want, got)) assert.fail(`got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
    assert(error instanceof classes[want.status], `${error.name} is not the class for ${want.status}`);
    assert.equal(error instanceof sdk.AlreadyExistsError, want.code === "already_exists");
  }

  /** Puts in what `${name.field}` and `${unique}` stand for. */
  #resolve(value) {
    if (typeof value === "string") {
      const whole = /^\$\{(\w+)\.(\w+)\}$/.exec(value);
      if (whole) return this.results[whole[1]][whole[2]];
      return value.replace(/\$\{(\w+)(?:\.(\w+))?\}/g, (_, name, field) => (name === "unique" ? this.unique : this.results[name][field]));
    }
    if (Array.isArray(value)) return value.map((item) => this.#resolve(item));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, this.#resolve(v)]));
  }

  async end() {
    for (const session of this.sessions) await session.destroy();
    for (const id of this.workspaces) {
      await clients.ordinary.deleteWorkspace(id, { force: true }).catch((error) => assert(error instanceof sdk.NotFoundError, error));
    }
  }
}

/** What a case sees of an object of the SDK. */
function describe(object) {
  if (object instanceof sdk.Session) return object.info;
  if (object instanceof sdk.Process) return { execId: object.execId, pid: object.pid };
  return Array.isArray(object) ? object.map(describe) : object;
}

const toSDKName = (name) => Object.keys(toSDK({ [name]: 0 }))[0];

const cases = JSON.parse(readFileSync(new URL("../../../contract/cases.json", import.meta.url), "utf8"));

for (const { name, steps } of cases) {
  test(name, async () => {
    const run = new Run();
    try {
      for (const step of steps) await run.step(step);
    } finally {
      await run.end();
    }
  });
}
