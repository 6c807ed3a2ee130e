import assert from "node:assert/strict";
import { test } from "node:test";

import * as sdk from "../../dist/esm/index.js";
import { fromBase64, toBase64 } from "../../dist/esm/bytes.js";
import { error, json, lost, sandbox } from "./fake.mjs";

const ok = () => json(200, { ok: true });
const query = (request) => Object.fromEntries(new URL(request.path, "http://x").searchParams);

function streamOf(sizes) {
  const left = [...sizes];
  return new ReadableStream({
    pull(c) {
      const size = left.shift();
      if (size === undefined) c.close();
      else if (size < 0) c.error(new Error("the disk broke"));
      else c.enqueue(new Uint8Array(size));
    },
  });
}

test("a stream is collected beside its place and moved there when it is whole", async () => {
  const mib = 1 << 20;
  const fake = await sandbox([ok(), ok(), ok()]);
  await fake.session.upload("data/big.bin", streamOf([mib, 3 * mib, 100, mib]), { mode: "0600" });
  const [first, second, move] = fake.requests;
  const { path } = query(first);
  assert.match(path, /^data\/\.big\.bin\.\w+\.part$/);
  assert.deepEqual(query(first), { path, mode: "0600", create: "true", append: "false" });
  assert.deepEqual(query(second), { path, mode: "0600", create: "false", append: "true" });
  assert.deepEqual([first.body.length, second.body.length], [4 * mib, mib + 100]);
  assert.deepEqual(move.body, { from: path, to: "data/big.bin", overwrite: true });
});

test("an empty stream makes an empty file", async () => {
  const fake = await sandbox([ok(), ok()]);
  await fake.session.upload("empty", streamOf([]));
  assert.equal(fake.requests[0].body.length, 0);
});

test("what is left of an upload that failed is removed", async () => {
  for (const [stream, answers] of [
    [streamOf([5 << 20, -1]), [ok(), ok()]],
    [streamOf([5 << 20]), [error(507, "insufficient_space"), ok()]],
    [streamOf([5 << 20]), [lost, error(404, "not_found")]],
  ]) {
    const fake = await sandbox(answers);
    await assert.rejects(fake.session.upload("f", stream));
    assert.match(fake.requests.at(-1).path, /fs\/delete$/);
    assert.equal(fake.left.length, 0);
  }
});

test("texts, bytes and blobs are sent as they are", async () => {
  const written = json(200, { ok: true, etag: '"2"' });
  const fake = await sandbox([ok(), ok(), written.clone(), written]);
  await fake.session.upload("a", new Blob(["x"]));
  await fake.session.write("b", new Uint8Array([1]), { append: true });
  const text = "ä".repeat(4 << 20); // more than a POST to fs/write may have
  assert.equal(await fake.session.write("c", text, { create: true }), undefined);
  assert.equal(await fake.session.write("c", "text", { ifMatch: '"1"' }), '"2"');
  assert.deepEqual(fake.requests.map((r) => [r.method, r.path.includes("/fs/raw?")]), Array(4).fill(["PUT", true]));
  assert.deepEqual(query(fake.requests[2]), { path: "c", create: "true" });
  assert.deepEqual([fake.requests[2].body === text, fake.requests[3].body], [true, "text"]);
});

test("files are sent as one form, again if the daemon was busy", async () => {
  const fake = await sandbox([error(429, "resource_exhausted"), json(200, { ok: true, paths: ["/workspace/in/a"] })]);
  const files = { 'a "b" \\ ä.txt': "text", bytes: new Uint8Array([0, 255]), blob: new Blob(["of a blob"]), empty: "" };
  assert.deepEqual(await fake.session.uploadFiles(files, "in/"), ["/workspace/in/a"]);
  for (const { method, path, headers, body } of fake.requests) {
    assert.deepEqual([method, path.endsWith("/fs/upload")], ["POST", true]);
    const [, boundary] = /^multipart\/form-data; boundary=(.+)$/.exec(headers.get("content-type"));
    const part = (disposition, text) => `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n${text}\r\n`;
    const wanted = [
      part('name="path"', "in/"),
      part('name="files"; filename="a \\"b\\" \\\\ ä.txt"', "text"),
      part('name="files"; filename="bytes"', "\0\ufffd"),
      part('name="files"; filename="blob"', "of a blob"),
      part('name="files"; filename="empty"', ""),
      `--${boundary}--\r\n`,
    ];
    assert.equal(await body.text(), wanted.join(""));
  }
  assert.equal(fake.requests.length, 2);
});

test("files with names that are none are not sent", async () => {
  const fake = await sandbox([]);
  for (const name of ["", "a/b", "a\r\nX: y", "a\0"]) {
    await assert.rejects(fake.session.uploadFiles({ [name]: "x" }), sdk.SandkastenError);
  }
});

test("parts of files are asked for by offset and length", async () => {
  const fake = await sandbox([new Response("x"), new Response("x")]);
  await fake.session.read("a", { offset: 5, maxBytes: 10 });
  assert.equal(await fake.session.readText("a"), "x");
  assert.deepEqual(fake.requests.map(query), [{ path: "a", raw: "true", offset: "5", max_bytes: "10" }, { path: "a", raw: "true" }]);
});

test("all pages of a directory are read", async () => {
  const fake = await sandbox([
    json(200, { entries: [{ name: "a", modified_at: "t" }], truncated: true, next_cursor: "c1" }),
    json(200, { entries: [{ name: "b" }], truncated: false }),
  ]);
  assert.deepEqual(await fake.session.list("d"), [{ name: "a", modifiedAt: "t" }, { name: "b" }]);
  assert.equal(query(fake.requests[1]).cursor, "c1");
});

test("standard input is sent until all of it is taken", async () => {
  const fake = await sandbox([json(201, { exec_id: "p", pid: 7 }), json(200, { accepted_bytes: 3 }), json(200, { accepted_bytes: 2 })]);
  const process = await fake.session.processes.start(["cat"], { openStdin: true });
  assert.equal(process.pid, 7);
  await process.writeStdin("hello");
  assert.deepEqual(fake.requests.slice(1).map((r) => Buffer.from(r.body.data_base64, "base64").toString()), ["hello", "lo"]);
});

test("standard input of any length comes in pieces", async () => {
  const taken = (accepted_bytes) => json(200, { accepted_bytes });
  const fake = await sandbox([json(201, { exec_id: "p", pid: 7 }), taken(512 << 10), taken(100_000), taken(2)]);
  const process = await fake.session.processes.start(["cat"], { openStdin: true });
  await process.writeStdin((async function* () {
    yield new Uint8Array((512 << 10) + 100_000);
    yield new Uint8Array(2);
  })());
  assert.deepEqual(fake.requests.slice(1).map((r) => Buffer.from(r.body.data_base64, "base64").length), [512 << 10, 100_000, 2]);
});

test("the end of a process is waited for in pieces", async () => {
  const fake = await sandbox([json(200, { state: "running" }), lost, json(200, { state: "ended", exit_code: 0 })]);
  assert.equal((await fake.session.processes.get("p").wait()).exitCode, 0);
});

test("base64 works at every length", () => {
  for (const size of [0, 1, 2, 3, 0x8000, 0x8001, 300_000]) {
    const bytes = Uint8Array.from({ length: size }, (_, i) => (i * 31) & 255);
    assert.equal(toBase64(bytes), Buffer.from(bytes).toString("base64"));
    assert(Buffer.from(fromBase64(toBase64(bytes))).equals(Buffer.from(bytes)));
  }
});

test("await using destroys", async () => {
  const fake = await sandbox([ok()]);
  await fake.session[Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]();
  assert.equal(fake.requests[0].method, "DELETE");
  assert(fake.session instanceof sdk.Files);
});

test("await using deletes a context", async () => {
  const fake = await sandbox([ok()]);
  await fake.session.context("a/b")[Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]();
  assert.equal(fake.requests[0].method, "DELETE");
  assert.match(fake.requests[0].path, /\/contexts\/a%2Fb$/);
});
