import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import * as sdk from "../../dist/esm/index.js";
import { client, error, json, lost, sandbox, session } from "./fake.mjs";

const result = { exit_code: 0, output: "hi\n" };
const refused = () => {
  throw new TypeError("fetch failed", { cause: Object.assign(new Error("connect"), { code: "ECONNREFUSED" }) });
};
const again = { "Retry-After": "0" };

for (const { name, answers, options, prepare, call, sent, fails } of [
  { name: "a GET is repeated after a lost connection", answers: [lost, lost, json(200, session)], call: (c) => c.getSession("x"), sent: 3 },
  { name: "a GET is repeated after a 503", answers: [error(503, "unavailable", again), json(200, session)], call: (c) => c.getSession("x"), sent: 2 },
  { name: "a restart is outlived", answers: [lost, lost, error(503, "unavailable", again), error(503, "unavailable", again), json(200, session)], call: (c) => c.getSession("x"), sent: 5 },
  { name: "a deletion whose answer is lost has succeeded", answers: [lost, error(404, "not_found")], call: (c) => c.deleteWorkspace("w"), sent: 2 },
  { name: "a deletion that was not begun has not", answers: [refused, error(404, "not_found")], call: (c) => c.deleteWorkspace("w"), sent: 2, fails: sdk.NotFoundError },
  { name: "a deletion of nothing has not", answers: [error(404, "not_found")], call: (c) => c.deleteWorkspace("w"), sent: 1, fails: sdk.NotFoundError },
  { name: "a command that never arrived is sent again", prepare: true, answers: [refused, json(200, { exit_code: 0, output: "" })], call: (c, s) => s.exec("make"), sent: 2 },
  { name: "a DELETE is repeated", answers: [lost, json(200, { ok: true })], call: (c) => c.deleteWorkspace("w"), sent: 2 },
  { name: "retries end", answers: [lost, lost, lost], options: { retryMs: 0 }, call: (c) => c.getSession("x"), sent: 3, fails: sdk.ConnectionError },
  { name: "none are made where none are wanted", answers: [lost], options: { maxRetries: 0 }, call: (c) => c.getSession("x"), sent: 1, fails: sdk.ConnectionError },
  { name: "a 404 is an answer", answers: [error(404, "not_found")], call: (c) => c.getSession("x"), sent: 1, fails: sdk.NotFoundError },
  { name: "what is over a quota is not sent again", answers: [json(429, { error: "4 of 4 cores", code: "resource_exhausted", reason: "quota_exceeded" })], call: (c) => c.createSession(), sent: 1, fails: sdk.RateLimitError },
  { name: "a wait that is too long is not waited for", answers: [error(429, "resource_exhausted", { "Retry-After": "3600" })], call: (c) => c.getSession("x"), sent: 1, fails: sdk.RateLimitError },
  { name: "a create is repeated", answers: [lost, error(503, "unavailable", again), json(201, session)], call: (c) => c.createSession(), sent: 3 },
  { name: "a fork is repeated", prepare: true, answers: [lost, json(201, { sessions: [session, session], copied: false })], call: (c, s) => s.fork({ count: 2 }), sent: 2 },
  { name: "a snapshot is repeated", prepare: true, answers: [lost, json(201, { id: "p" })], call: (c, s) => s.snapshot({ name: "n" }), sent: 2 },
  { name: "a network is set again after a lost answer", prepare: true, answers: [lost, json(200, { mode: "none" })], call: (c, s) => s.setNetwork({ mode: "none" }), sent: 2 },
  { name: "a network is opened again after a lost answer", prepare: true, answers: [lost, json(200, { mode: "allow" })], call: (c, s) => s.allowNetwork(["a.example.org"]), sent: 2 },
  { name: "a workspace has no key and is not repeated", answers: [lost], call: (c) => c.createWorkspace(), sent: 1, fails: sdk.ConnectionError },
  { name: "a secret is set again after a lost answer", answers: [lost, json(200, { name: "git" })], call: (c) => c.setSecret("git", { hosts: ["h"], value: "v" }), sent: 2 },
  { name: "a user is changed again after a lost answer", answers: [lost, json(200, { name: "dora" })], call: (c) => c.updateUser("dora", { role: "admin" }), sent: 2 },
  { name: "a key is not made again", answers: [lost], call: (c) => c.createKey(), sent: 1, fails: sdk.ConnectionError },
  { name: "something else that answers is told", answers: [new Response("<html>", { headers: { "Content-Type": "text/html" } })], call: (c) => c.info(), sent: 1, fails: sdk.SandkastenError },
]) {
  test(name, async () => {
    const fake = await (prepare ? sandbox : client)(answers, options);
    if (fails) await assert.rejects(call(fake.client), fails);
    else await call(fake.client, fake.session);
    assert.equal(fake.requests.length, sent);
    const keys = new Set(fake.requests.map((request) => request.headers.get("Idempotency-Key")));
    assert.equal(keys.size, 1, "each attempt has the same key");
  });
}

test("a snapshot is of all files, or of those that the driver can tell", async () => {
  const fake = await sandbox([json(201, { id: "p" }), json(201, { id: "p" })]);
  await fake.session.snapshot();
  await fake.session.snapshot({ name: "n", scope: "sandbox" });
  assert.deepEqual(fake.requests.map((request) => request.body), [
    { scope: "sandbox", fallback: "workspace" },
    { name: "n", scope: "sandbox" },
  ]);
});

test("a wrong address is told soon", async () => {
  const fake = client(Array(20).fill(refused), { retryMs: 60_000 });
  const began = Date.now();
  await assert.rejects(fake.client.getSession("x"), sdk.ConnectionError);
  assert.ok(Date.now() - began < 8_000 && fake.requests.length > 3, `${fake.requests.length} requests in ${Date.now() - began} ms`);
});

test("a command is not run again after its answer was lost", async () => {
  for (const answer of [lost, error(503, "unavailable", again)]) {
    const fake = await sandbox([answer]);
    await assert.rejects(fake.session.exec("make"), sdk.SandkastenError);
    assert.equal(fake.requests.length, 1);
  }
});

test("a command that was refused for its rate is sent again", async () => {
  const fake = await sandbox([error(429, "resource_exhausted", again), json(200, result)]);
  assert.equal((await fake.session.exec("make")).exitCode, 0);
  assert.equal(fake.requests.length, 2);
});

test("the key goes nowhere that a redirect names", async (t) => {
  const seen = [];
  const elsewhere = createServer((request, response) => (seen.push(request.url), response.end("{}")));
  const daemon = createServer((request, response) => {
    if (request.url === "/v1/sessions") return response.writeHead(201, { "Content-Type": "application/json" }).end(JSON.stringify(session));
    response.writeHead(307, { Location: `http://127.0.0.1:${elsewhere.address().port}/stolen` }).end("over there");
  });
  for (const server of [elsewhere, daemon]) {
    await new Promise((listens) => server.listen(0, "127.0.0.1", listens));
    t.after(() => (server.closeAllConnections(), server.close()));
  }
  const real = new sdk.SandboxClient({ baseUrl: `http://127.0.0.1:${daemon.address().port}`, apiKey: "key" });
  const { ports } = await real.createSession();
  for (const init of [undefined, { redirect: "follow" }]) {
    const answer = await ports.fetch(80, "/", init);
    assert.deepEqual([answer.status, await answer.text()], [307, "over there"]);
    assert.match(answer.headers.get("location"), /stolen$/);
  }
  await assert.rejects(ports.fetch(80, "/", { redirect: "error" }), sdk.ConnectionError);
  await assert.rejects(real.info(), (e) => e instanceof sdk.SandkastenError && /redirects/.test(e.message));
  assert.deepEqual(seen, []);
});

test("requests carry the key, the API's names, and keys of the user's as they are", async () => {
  const fake = client([json(201, session)]);
  const created = await fake.client.createSession({ ttlSeconds: 5, workspaceId: undefined, env: { My_Var: "x" }, limits: { memoryMb: 64 }, idempotencyKey: "k" });
  const [request] = fake.requests;
  assert.deepEqual(request.body, { ttl_seconds: 5, env: { My_Var: "x" }, limits: { memory_mb: 64 } });
  assert.equal(request.headers.get("Authorization"), "Bearer key");
  assert.equal(request.headers.get("Idempotency-Key"), "k");
  assert.deepEqual(created.info.labels, { my_key: "v" });
});

test("a network is asked for with a session, shown, changed and kept in info", async () => {
  const secrets = [{ name: "TOKEN", hosts: ["a.example.org"], header: "Authorization", value: "Bearer x" }];
  const wire = { mode: "allow", allow: ["a.example.org"], max_mbit: 10, secrets };
  const shown = { mode: "allow", allow: ["a.example.org"], max_mbit: 10, secrets: [{ name: "TOKEN", hosts: ["a.example.org"], placeholder: "p" }] };
  const fake = client([json(201, { ...session, network: shown }), json(200, { mode: "none" }), json(200, shown), ...Array.from({ length: 2 }, () => json(200, { ...shown, allow: ["a.example.org", "@pip"] }))]);
  const network = { mode: "allow", allow: ["a.example.org"], maxMbit: 10, secrets };
  const made = await fake.client.createSession({ network });
  assert.deepEqual([made.info.network.maxMbit, made.info.network.secrets[0].placeholder], [10, "p"]);
  assert.equal((await made.network()).mode, "none");
  assert.equal((await made.setNetwork(network)).maxMbit, 10);
  assert.deepEqual((await made.allowNetwork(["@pip"])).allow, ["a.example.org", "@pip"]);
  await made.setNetwork({ ...made.info.network, secrets: [...made.info.network.secrets, { name: "S", hosts: ["h"], header: "X", stored: "git", placeholder: "q" }] });
  assert.deepEqual(fake.requests.pop().body.secrets, [{ name: "TOKEN", hosts: ["a.example.org"] }, { name: "S", stored: "git" }]);
  assert.deepEqual([made.info.networkMode, made.info.network.allow], ["allow", ["a.example.org", "@pip"]]);
  const path = `/v1/sessions/${session.id}/network`;
  assert.deepEqual(fake.requests.map((r) => [r.method, r.path, r.body]), [
    ["POST", "/v1/sessions", { network: wire }], ["GET", path, undefined], ["PUT", path, wire], ["POST", `${path}/allow`, { entries: ["@pip"] }],
  ]);
});

test("the log of a network, results and stats have what was refused", async () => {
  const denied = [{ name: "a.example.org", port: 443, why: "denied by a.example.org" }];
  const fake = await sandbox([
    json(200, { events: [{ seq: 7, op: "connect", allowed: false, count: 1 }], next_seq: 7 }),
    json(200, { ...result, network_denied: denied }),
    json(200, { network: { bytes_sent: 1, limit_hits: { max_connections: 2 } } }),
  ]);
  assert.equal((await fake.session.networkLog({ sinceSeq: 5, limit: 1 })).nextSeq, 7);
  assert.match(fake.requests[0].path, /\/network\/log\?since_seq=5&limit=1$/);
  assert.deepEqual((await fake.session.exec("x")).networkDenied, denied);
  assert.deepEqual((await fake.session.stats()).network, { bytesSent: 1, limitHits: { max_connections: 2 } });
});

test("secrets, users and keys have the API's names", async () => {
  const fake = client([
    json(200, { name: "git", updated_at: "t" }),
    json(201, { id: "k1", expires_at: "t", key: "sk_text" }),
    json(200, { name: "dora", state: "disabled", has_password: false }),
    json(200, { owner: "dora", admin: false, key: { id: "k1", parent_id: "k0" } }),
    json(200, { keys: [{ id: "k1" }] }),
  ]);
  const secret = { hosts: ["a.example.org"], header: "Authorization", value: "Bearer x" };
  assert.equal((await fake.client.setSecret("git", secret)).updatedAt, "t");
  assert.deepEqual(await fake.client.createKey({ user: "dora", ttlSeconds: 3600 }), { id: "k1", expiresAt: "t", key: "sk_text" });
  assert.equal((await fake.client.updateUser("dora", { email: "", state: "disabled", role: undefined })).hasPassword, false);
  assert.equal((await fake.client.me()).key.parentId, "k0");
  assert.deepEqual(await fake.client.listKeys({ user: "dora" }), [{ id: "k1" }]);
  assert.deepEqual(fake.requests.map((r) => [r.method, r.path, r.body]), [
    ["PUT", "/v1/secrets/git", secret],
    ["POST", "/v1/keys", { user: "dora", ttl_seconds: 3600 }],
    ["PATCH", "/v1/users/dora", { email: "", state: "disabled" }],
    ["GET", "/v1/me", undefined],
    ["GET", "/v1/keys?user=dora", undefined],
  ]);
});

test("a client that cannot work is refused, without its key in the error", () => {
  for (const [options, why] of [
    [{ baseUrl: "127.0.0.1:8787" }, /baseUrl must be like http.*, not "127.0.0.1:8787"/],
    [{ apiKey: "two\nlines" }, /the API key has characters that no header can have/],
  ]) {
    const refused = (error) => error instanceof sdk.SandkastenError && why.test(error.message) && !error.message.includes("lines");
    assert.throws(() => new sdk.SandboxClient({ apiKey: "key", ...options }), refused);
  }
});

test("ids and paths are escaped", async () => {
  const fake = await sandbox([json(200, { path: "p", entries: [], truncated: false }), error(404, "not_found")]);
  await fake.session.list("a b&c");
  await assert.rejects(fake.client.getSession("../x"), sdk.NotFoundError);
  assert.equal(fake.requests[0].path, `/v1/sessions/${session.id}/fs/list?path=a+b%26c&limit=1000`);
  assert.equal(fake.requests[1].path, "/v1/sessions/..%2Fx");
});

test("an aborted call throws its reason, at once", async () => {
  const reason = new Error("enough");
  const fake = client([lost, error(503, "unavailable", { "Retry-After": "10" })]);
  const abort = new AbortController();
  const pending = fake.client.getSession("x", { signal: abort.signal });
  abort.abort(reason);
  await assert.rejects(pending, reason);
  await assert.rejects(fake.client.getSession("x", { signal: AbortSignal.abort(reason) }), reason);
  assert(fake.requests.length <= 1);
});

test("an abort while the answer is under way is no lost connection", async () => {
  const reason = new Error("enough");
  const abort = new AbortController();
  const fake = client([
    (init) => new Promise((_, reject) => {
      init.signal.addEventListener("abort", () => reject(init.signal.reason));
      abort.abort(reason);
    }),
  ]);
  await assert.rejects(fake.client.getSession("x", { signal: abort.signal }), reason);
});

test("errors have the class of their code", async () => {
  for (const [status, code, type] of [
    [400, "invalid_argument", sdk.InvalidArgumentError],
    [409, "already_exists", sdk.AlreadyExistsError],
    [412, "precondition_failed", sdk.PreconditionFailedError],
    [413, "too_large", sdk.InvalidArgumentError],
    [500, "internal", sdk.InternalError],
    [507, "insufficient_space", sdk.InsufficientSpaceError],
    [422, "of_a_later_version", sdk.UnprocessableError],
    [418, "of_a_later_version", sdk.APIError],
  ]) {
    const fake = client([json(status, { error: "why", code, field: "f", request_id: "r" }, { "Retry-After": "7" })]);
    await assert.rejects(fake.client.info(), (e) => {
      const { name, message, field, requestId, retryAfter } = e;
      assert.deepEqual({ name, message, status: e.status, code: e.code, field, requestId, retryAfter }, { name: type.name, message: "why", status, code, field: "f", requestId: "r", retryAfter: 7 });
      return e instanceof type && e instanceof sdk.APIError;
    });
  }
});

test("an error that is no JSON has a message, too", async () => {
  const fake = client([new Response("<html>", { status: 502 })]);
  await assert.rejects(fake.client.info(), (e) => e instanceof sdk.APIError && e.status === 502 && e.message.includes("502"));
});

test("a client is told what it lacks", () => {
  const { SANDKASTEN_API_KEY: key, SANDKASTEN_URL: url } = process.env;
  try {
    delete process.env.SANDKASTEN_API_KEY;
    assert.throws(() => new sdk.SandboxClient(), /SANDKASTEN_API_KEY/);
    process.env.SANDKASTEN_API_KEY = "k";
    new sdk.SandboxClient();
  } finally {
    if (key === undefined) delete process.env.SANDKASTEN_API_KEY;
    else process.env.SANDKASTEN_API_KEY = key;
    if (url !== undefined) process.env.SANDKASTEN_URL = url;
  }
});
