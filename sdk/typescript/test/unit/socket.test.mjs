import assert from "node:assert/strict";
import { test } from "node:test";

import { ConnectionError, NotFoundError, SandboxClient, SandkastenError, UnavailableError } from "../../dist/esm/index.js";
import { error, json, session as info } from "./fake.mjs";

/** A session of a client whose WebSocket does what `daemon` says: it gets the socket when it is made. */
async function session(daemon, answers = []) {
  const sockets = [];
  class WebSocket extends EventTarget {
    sent = [];
    bufferedAmount = 0;
    constructor(url, protocols) {
      super();
      Object.assign(this, { url, protocols });
      sockets.push(this);
      queueMicrotask(() => daemon(this));
    }
    send(data) { this.sent.push(typeof data === "string" ? data : Buffer.from(data).toString()); }
    close() { this.closed = true; }
    opens() { this.dispatchEvent(new Event("open")); }
    says(data) { this.dispatchEvent(Object.assign(new Event("message"), { data: typeof data === "object" ? JSON.stringify(data) : new TextEncoder().encode(data).buffer })); }
    ends(code) { this.dispatchEvent(Object.assign(new Event("close"), { code })); }
  }
  const left = [json(201, info), ...answers];
  const client = new SandboxClient({ baseUrl: "https://box.test", apiKey: "kéy?>", maxRetries: 0, webSocket: WebSocket, fetch: async () => left.shift() });
  return { s: await client.createSession(), sockets };
}

const started = { started: { terminal_id: "t1", reattached: false, seq: 100 } };

test("a terminal shows bytes, counts them and ends with its program", async () => {
  const { s, sockets } = await session((ws) => {
    ws.opens();
    ws.says(started);
    ws.says("héllo");
    ws.says({ dropped: { bytes: 10 } });
    ws.says("!");
    ws.says({ exit: { exit_code: 3, cause: "exited" } });
  });
  const terminal = await s.openTerminal({ rows: 40, command: ["sh", "-c", "x y"] });
  terminal.write("ls\n");
  terminal.resize(50, 120);
  sockets[0].ends(1000);
  let shown = "";
  for await (const bytes of terminal) shown += new TextDecoder().decode(bytes);
  assert.deepEqual([shown, terminal.id, terminal.seq, terminal.exitCode], ["héllo!", "t1", 100 + 6 + 10 + 1, 3]);
  const [{ url, protocols, sent }] = sockets;
  assert.equal(url, `wss://box.test/v1/sessions/${info.id}/terminal?rows=40&command=sh&command=-c&command=x+y`);
  assert.deepEqual(protocols, ["sandkasten", "sandkasten.key.a8OpeT8-"]); // base64url
  assert.deepEqual(sent, ["ls\n", '{"resize":{"rows":50,"cols":120}}']);
});

test("to come back to a terminal names it and the place", async () => {
  const { s, sockets } = await session((ws) => (ws.opens(), ws.says(started)));
  const terminal = await s.attachTerminal("t1", { sinceSeq: 0 });
  terminal.close();
  assert.match(sockets[0].url, /terminal\?since_seq=0&terminal_id=t1$/);
  assert(sockets[0].closed);
});

for (const { name, daemon, type } of [
  { name: "breaks", daemon: (ws) => ws.ends(1006), type: ConnectionError },
  { name: "tells an error", daemon: (ws) => ws.says({ error: "later", code: "unavailable" }), type: UnavailableError },
]) {
  test(`a terminal that ${name} throws`, async () => {
    const { s } = await session((ws) => (ws.opens(), ws.says(started), daemon(ws)));
    const terminal = await s.openTerminal();
    await assert.rejects(terminal[Symbol.asyncIterator]().next(), type);
  });
}

for (const { name, answer, type } of [
  { name: "the reason, where the daemon has one", answer: error(404, "not_found"), type: NotFoundError },
  { name: "the connection, where it has none", answer: json(200, info), type: ConnectionError },
]) {
  test(`a refusal throws ${name}`, async () => {
    const { s } = await session((ws) => ws.ends(1006), [answer]);
    await assert.rejects(s.openTerminal(), type);
  });
}

test("what cannot be sent any more is an error", async () => {
  for (const [code, message] of [[1000, /has ended/], [1006, /1006/]]) {
    const { s, sockets } = await session((ws) => (ws.opens(), ws.says(started)));
    const terminal = await s.openTerminal();
    sockets[0].ends(code);
    assert.throws(() => terminal.write("ls\n"), (e) => e instanceof ConnectionError && message.test(e.message));
    assert.throws(() => terminal.resize(1, 2), ConnectionError);
    const tunnel = (await s.ports.connect(1)).writable.getWriter();
    sockets[1].ends(code);
    await assert.rejects(tunnel.write(new Uint8Array(1)), message);
  }
});

test("a tunnel that broke cannot be closed as if all had arrived", async () => {
  const { s, sockets } = await session((ws) => ws.opens());
  const close = async (code) => {
    const writer = (await s.ports.connect(1)).writable.getWriter();
    sockets.at(-1).ends(code);
    await writer.close();
  };
  await assert.rejects(close(1006), ConnectionError);
  await close(1000); // by the other side, which wants no more
});

test("a tunnel waits while much has not left", async () => {
  const { s, sockets } = await session((ws) => ws.opens());
  const writer = (await s.ports.connect(1)).writable.getWriter();
  const [ws] = sockets;
  ws.send = function (data) { this.bufferedAmount += data.length; };
  const written = writer.write(new Uint8Array(10 << 20)).then(() => "written");
  const soon = () => new Promise((resolve) => setTimeout(resolve, 50, "waiting"));
  assert.equal(await Promise.race([written, soon()]), "waiting");
  assert.ok(ws.bufferedAmount < 5 << 20, `${ws.bufferedAmount} bytes are buffered`);
  const drain = setInterval(() => (ws.bufferedAmount = 0), 1);
  assert.equal(await written, "written");
  clearInterval(drain);
  ws.bufferedAmount = 10 << 20;
  const broken = writer.write(new Uint8Array(1));
  ws.ends(1006);
  await assert.rejects(broken, ConnectionError);
});

test("a signal detaches, with its reason", async () => {
  const { s, sockets } = await session((ws) => (ws.opens(), ws.says(started)));
  const controller = new AbortController();
  const terminal = await s.openTerminal({ signal: controller.signal });
  const next = terminal[Symbol.asyncIterator]().next();
  controller.abort(new Error("enough"));
  await assert.rejects(next, /enough/);
  assert(sockets[0].closed);
  await assert.rejects(s.openTerminal({ signal: controller.signal }), /enough/);
});

test("an engine without WebSocket is told what to do", async (t) => {
  const own = Object.getOwnPropertyDescriptor(globalThis, "WebSocket");
  Object.defineProperty(globalThis, "WebSocket", { value: undefined, configurable: true, writable: true });
  t.after(() => (own ? Object.defineProperty(globalThis, "WebSocket", own) : delete globalThis.WebSocket));
  const client = new SandboxClient({ apiKey: "k", fetch: async () => json(201, info) });
  await assert.rejects((await client.createSession()).openTerminal(), (e) => e instanceof SandkastenError && /package|from "ws"/.test(e.message));
});
