import assert from "node:assert/strict";
import { test } from "node:test";

import * as sdk from "../../dist/esm/index.js";
import { serverEvents } from "../../dist/esm/sse.js";
import { chunk, client, done, error, events, json, lost, sandbox, session, start } from "./fake.mjs";

async function all(stream) {
  const list = [];
  for await (const item of stream) list.push(item);
  return list;
}

const texts = (list) => list.map((event) => (event.type === "chunk" ? event.text : event.type));

test("events are read however their bytes arrive", async () => {
  const text = ": hello\r\n\r\nevent: chunk\r\nid: e:1\r\ndata: ä\r\n\r\nevent:a\ndata:one\ndata: two\nother: x\n\nid: 7\n\ndata: cut off";
  const bytes = new TextEncoder().encode(text);
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const pieces = [];
    for (let i = 0; i < bytes.length; i += size) pieces.push(bytes.slice(i, i + size));
    const body = new ReadableStream({ pull: (c) => (pieces.length ? c.enqueue(pieces.shift()) : c.close()) });
    assert.deepEqual(await all(serverEvents(body)), [
      { event: "chunk", id: "e:1", data: "ä" },
      { event: "a", id: "", data: "one\ntwo" },
      { event: "", id: "7", data: "" }, // only a place to go on from
    ], `in pieces of ${size}`);
  }
});

test("a stream gives start, chunks and done", async () => {
  const fake = await sandbox([events([start(), chunk("a", 1) + chunk("b", 2), done()])]);
  const list = await all(fake.session.execStream("x", { timeoutMs: 5 }));
  assert.deepEqual(texts(list), ["start", "a", "b", "done"]);
  assert.deepEqual(list[3], { type: "done", exitCode: 0, cause: "exited", execId: "e1" });
  const { exec_id: _, ...body } = fake.requests[0].body;
  assert.deepEqual(body, { cmd: "x", timeout_ms: 5 });
});

test("a stream goes on behind its last event, as often as it makes progress", async () => {
  const fake = await sandbox([
    events([start(), chunk("a", 1), chunk("b", 2).slice(0, 20)]),
    events([start(), chunk("b", 2)]),
    events([start()]), // no progress
    lost, // nor here
    events([start(), chunk("c", 3)], { whole: true }), // an end that is none
    events([done()]),
  ]);
  assert.deepEqual(texts(await all(fake.session.execStream("x"))), ["start", "a", "b", "c", "done"]);
  assert.deepEqual(fake.requests.map((r) => [r.method, r.headers.get("Last-Event-ID")]), [
    ["POST", null], ["GET", "e1:1"], ["GET", "e1:2"], ["GET", "e1:2"], ["GET", "e1:2"], ["GET", "e1:3"],
  ]);
});

test("a stream that makes no progress ends in an error", async () => {
  const fake = await sandbox([events([start()]), events([start()]), events([start()])], { maxRetries: 1, retryMs: 0 });
  await assert.rejects(all(fake.session.execStream("x")), sdk.ConnectionError);
  assert.equal(fake.requests.length, 3);
});

test("a command is not run again because its stream never began", async () => {
  for (const answer of [lost, events([]), events([], { whole: true })]) {
    const fake = await sandbox([answer]);
    await assert.rejects(all(fake.session.execStream("x")), sdk.ConnectionError);
    assert.equal(fake.requests.length, 1);
  }
});

test("an error event is thrown", async () => {
  const told = 'event: error\ndata: {"error":"gone","code":"unavailable"}\n\n';
  const fake = await sandbox([events([start(), told])]);
  await assert.rejects(all(fake.session.execStream("x")), (e) => e instanceof sdk.UnavailableError && e.message === "gone");
});

test("a stream that cannot be taken up says why", async () => {
  const fake = await sandbox([events([start()]), error(404, "not_found")]);
  await assert.rejects(all(fake.session.execStream("x")), sdk.NotFoundError);
});

test("chunks have their bytes", async () => {
  const odd = 'event: chunk\nid: e1:2\ndata: {"chunk":"\\ufffd","chunk_base64":"/wA=","stream":"stderr","timestamp":"t"}\n\n';
  const fake = await sandbox([events([chunk("ä", 2), odd, done()])]);
  const [first, second] = await all(fake.session.attach("e1"));
  assert.deepEqual([...first.bytes], [0xc3, 0xa4]);
  assert.deepEqual([[...second.bytes], second.stream], [[0xff, 0], "stderr"]);
});

test("who leaves a stream ends its request", async () => {
  let cancelled = false;
  const body = new ReadableStream({
    start: (c) => c.enqueue(new TextEncoder().encode(start())),
    cancel: () => {
      cancelled = true;
    },
  });
  const fake = await sandbox([new Response(body)]);
  for await (const event of fake.session.execStream("x")) {
    assert.equal(event.execId, "e1");
    break;
  }
  assert(cancelled);
});

test("an abort ends a stream with its reason", async () => {
  const reason = new Error("enough");
  const abort = new AbortController();
  const body = (init) => new Response(new ReadableStream({
    start(c) {
      c.enqueue(new TextEncoder().encode(start()));
      init.signal.addEventListener("abort", () => c.error(init.signal.reason));
    },
  }));
  const fake = await sandbox([body]);
  await assert.rejects(async () => {
    for await (const _ of fake.session.execStream("x", { signal: abort.signal })) abort.abort(reason);
  }, reason);
  const [run, end] = fake.requests;
  assert.match(run.body.exec_id, /^[a-z2-7]{26}$/);
  assert.equal(end.path, `/v1/sessions/${session.id}/execs/${run.body.exec_id}/cancel`);
});

test("an abort ends the command of a call, also one that the daemon hears of later", async () => {
  const unknown = () => json(404, { error: "no such exec", code: "not_found", reason: "no_such_exec" });
  for (const run of [
    (s, signal) => s.exec("make", { signal }),
    (s, signal) => s.processes.run(["make"], { signal }),
    (s, signal) => s.processes.run("make", { signal, onStdout: () => {} }),
  ]) {
    const reason = new Error("enough");
    const abort = new AbortController();
    const hangs = (init) =>
      new Promise((_, reject) => {
        init.signal.addEventListener("abort", () => reject(init.signal.reason));
        abort.abort(reason);
      });
    const fake = await sandbox([hangs, unknown, json(200, { ok: true })]);
    await assert.rejects(run(fake.session, abort.signal), reason);
    const [first, ...ends] = fake.requests;
    const path = `/v1/sessions/${session.id}/execs/${first.body.exec_id}/cancel`;
    assert.deepEqual(ends.map((request) => request.path), [path, path]);
  }
});

test("neither a call that was aborted before, nor a lost connection, nor a stream that is left ends a command", async () => {
  const before = await sandbox([]);
  await assert.rejects(before.session.exec("make", { signal: AbortSignal.abort(new Error("enough")) }), /enough/);
  assert.equal(before.requests.length, 0);
  const broken = await sandbox([lost]);
  await assert.rejects(broken.session.exec("make", { signal: new AbortController().signal }), sdk.ConnectionError);
  assert.equal(broken.requests.length, 1);
  const left = await sandbox([events([start(), chunk("a", 1)])]);
  for await (const _ of left.session.execStream("make", { signal: new AbortController().signal })) break;
  assert.equal(left.requests.length, 1);
});

test("a long command is waited for in pieces", async () => {
  const fake = await sandbox([
    events([start()]),
    json(200, { exec_id: "e1", state: "running" }),
    lost,
    json(200, { exec_id: "e1", state: "ended", exit_code: 3, output: "x" }),
  ]);
  const result = await fake.session.exec("make", { timeoutMs: 3_600_000 });
  assert.deepEqual([result.exitCode, result.output], [3, "x"]);
  assert.deepEqual(fake.requests.map((r) => r.method), ["POST", "GET", "GET", "GET"]);
});

test("a long command that ends with its client is not left", async () => {
  let left = 0; // chunks that were not read when the stream was left
  const pieces = [start(), chunk("a", 1), chunk("b", 2), done()];
  const stream = new ReadableStream(
    {
      pull: (c) => (pieces.length ? c.enqueue(new TextEncoder().encode(pieces.shift())) : new Promise(() => {})),
      cancel: () => {
        left = pieces.length;
      },
    },
    { highWaterMark: 0 },
  );
  const fake = await sandbox([new Response(stream), json(200, { exec_id: "e1", state: "ended", exit_code: 0, output: "ab" })]);
  const result = await fake.session.exec("make", { timeoutMs: 3_600_000, onDisconnect: "kill" });
  assert.deepEqual([result.output, left], ["ab", 0]);
  assert.deepEqual(fake.requests.map((r) => r.path.replace(/.*execs?/, "")), ["/stream", "/e1?wait_ms=60000"]);
});

test("a long command that never began is an error of the connection, or of the daemon", async () => {
  const told = 'event: error\ndata: {"error":"gone","code":"unavailable"}\n\n';
  for (const [texts, how, type] of [[[], {}, sdk.ConnectionError], [[], { whole: true }, sdk.ConnectionError], [[told], {}, sdk.UnavailableError]]) {
    const fake = await sandbox([events(texts, how)]);
    await assert.rejects(fake.session.exec("make", { timeoutMs: 3_600_000 }), type);
    assert.equal(fake.requests.length, 1);
  }
});

test("changes of files are told until the connection breaks", async () => {
  const fake = await sandbox([events(["event: ready\ndata: {}\n\n", 'event: rename\ndata: {"path":"b","from":"a","type":"file"}\n\n'])]);
  const seen = [];
  await assert.rejects(async () => {
    for await (const event of fake.session.watch("src", { recursive: true })) seen.push(event);
  }, sdk.ConnectionError);
  assert.deepEqual(seen, [{ type: "ready" }, { type: "rename", path: "b", from: "a", kind: "file" }]);
});

test("events go on behind the last one, or a mark, and tell a gap", async () => {
  const event = (type, id, rest = {}) => `event: ${type}\nid: ${id}\ndata: ${JSON.stringify({ id, type, time: "2026-11-21T09:00:00Z", ...rest })}\n\n`;
  const fake = client([
    events([event("ready", "a-1"), event("exec.burst", "a-2", { session_id: "s", exec_burst: { started: 3, finished: 2 } }), "id: a-7\n\n"]),
    lost,
    events([event("ready", "b-1"), event("gap", "b-1", { reason: "restarted", reload: ["session"] })], { whole: true }),
  ]);
  const seen = [];
  for await (const e of fake.client.events({ since: "a-0", types: ["session", "exec"], session: "s" })) {
    seen.push(e);
    if (e.type === "gap") break;
  }
  assert.deepEqual(seen.map(({ id, type }) => [id, type]), [["a-1", "ready"], ["a-2", "exec.burst"], ["b-1", "gap"]]);
  assert.deepEqual([seen[1].sessionId, seen[1].execBurst, seen[2].reload], ["s", { started: 3, finished: 2 }, ["session"]]);
  assert.deepEqual(fake.requests.map((r) => r.headers.get("Last-Event-ID")), ["a-0", "a-7", "a-7"]);
  assert.match(fake.requests[0].path, /\/v1\/events\?(?=.*session=s)(?=.*types=session%2Cexec)/);
});

const decision = (seq, name) => `event: network\nid: ${seq}\ndata: ${JSON.stringify({ seq, op: "resolve", name, allowed: false, count: 1, bytes_sent: 2 })}\n\n`;

test("the log of a network goes on behind its last event until it is done", async () => {
  const fake = await sandbox([
    lost,
    events([": alive\n\n"]),
    events([decision(7, "a"), decision(9, "b"), decision(11, "cut").slice(0, 30)]),
    events(["event: later\ndata: {}\n\n", decision(11, "c")], { whole: true }), // an end that is none
    events(["event: done\ndata: {}\n\n"]),
  ]);
  const list = await all(fake.session.followNetworkLog({ sinceSeq: 5 }));
  assert.deepEqual(list.map(({ seq, name, bytesSent }) => [seq, name, bytesSent]), [[7, "a", 2], [9, "b", 2], [11, "c", 2]]);
  assert.deepEqual(fake.requests.map((r) => r.headers.get("Last-Event-ID")), ["5", "5", "5", "9", "11"]);
});

test("an error ends the log of a network", async () => {
  const told = 'event: error\ndata: {"error":"gone","code":"not_found"}\n\n';
  const fake = await sandbox([events([decision(7, "a"), told])]);
  await assert.rejects(all(fake.session.followNetworkLog()), (e) => e instanceof sdk.NotFoundError && e.message === "gone");
  assert.equal(fake.requests[0].headers.get("Last-Event-ID"), null);
});

test("a log of a network that makes no progress ends in an error", async () => {
  const fake = await sandbox([events([]), events([]), events([])], { maxRetries: 1, retryMs: 0 });
  await assert.rejects(all(fake.session.followNetworkLog()), sdk.ConnectionError);
  assert.equal(fake.left.length, 0);
});
