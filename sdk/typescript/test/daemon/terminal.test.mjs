// Terminals and tunnels of a real daemon, with the WebSocket of this Node or, where it has none, of the package ws.
import assert from "node:assert/strict";
import { test } from "node:test";

import WebSocket from "ws";

import { NotFoundError, SandboxClient } from "../../dist/esm/index.js";

const webSockets = { ws: WebSocket, ...(globalThis.WebSocket && { "the global one": globalThis.WebSocket }) };
const decoder = new TextDecoder();

for (const [name, webSocket] of Object.entries(webSockets)) {
  test(`with ${name}`, async (t) => {
    const client = new SandboxClient({ webSocket });
    const session = await client.createSession({ image: "python" });
    t.after(() => session.destroy());

    /** Reads until the terminal has shown a text. */
    async function until(terminal, text) {
      let shown = "";
      for await (const bytes of terminal) {
        shown += decoder.decode(bytes);
        if (shown.includes(text)) break;
      }
      assert(shown.includes(text), shown);
      return shown;
    }

    await t.test("a terminal has a size, keys and an end", async () => {
      const terminal = await session.openTerminal({ rows: 33, cols: 101, command: ["sh"] });
      terminal.write("stty size; echo $((6*7))-\n");
      assert.match(await until(terminal, "42-"), /33 101/);
      terminal.resize(10, 20);
      terminal.write("stty size\n");
      await until(terminal, "10 20");
      terminal.write("exit 3\n");
      await until(terminal, "exit 3");
      for await (const _ of terminal);
      assert.equal(terminal.exitCode, 3);
      const record = (await session.execs()).find((each) => each.execId === terminal.id);
      assert.equal(record.exitCode, 3);
    });

    await t.test("to come back goes on where it was", async () => {
      const first = await session.openTerminal({ command: ["sh"] });
      first.write("echo one-$((1+1))\n");
      await until(first, "one-2");
      first.close();
      const second = await session.attachTerminal(first.id, { sinceSeq: first.seq });
      second.write("echo two-$((1+1))\n");
      const shown = await until(second, "two-2");
      assert(!shown.includes("one-2"), shown);
      await session.processes.get(first.id).kill();
      for await (const _ of second);
      assert.notEqual(second.exitCode, undefined);
    });

    await t.test("a terminal that is not there is an error of the API", async () => {
      await assert.rejects(session.attachTerminal("f5q2bz7lq4m3k5n6p7r2s3t4u5"), NotFoundError);
    });

    await t.test("a tunnel carries bytes both ways and half-closes", async () => {
      const program = "import socket\ns = socket.create_server(('127.0.0.1', 9000))\nprint('up', flush=True)\nc, _ = s.accept()\nd = b''\nwhile p := c.recv(65536): d += p\nc.sendall(d[::-1])\nc.close()\n";
      const server = await session.processes.start(["python3", "-c", program]);
      for await (const event of server.stream()) if (event.type === "chunk") break; // it listens
      const { readable, writable } = await session.ports.connect(9000);
      const writer = writable.getWriter();
      await writer.write(new TextEncoder().encode("abc".repeat(400_000)));
      await writer.close();
      assert.equal(await new Response(readable).text(), "cba".repeat(400_000));
    });

    await t.test("shells can be listed and closed", async () => {
      await session.exec("x=1", { shell: "other" });
      assert.deepEqual((await session.shells()).map((shell) => shell.name).sort(), ["default", "other"]);
      await session.closeShell("other");
      assert.equal((await session.exec("echo [$x]", { shell: "other" })).output, "[]\n");
    });

    await t.test("a process can be followed from its start", async () => {
      const streams = [];
      for await (const event of session.processes.runStream(["sh", "-c", "echo out; echo err >&2"])) if (event.type === "chunk") streams.push(event.stream);
      assert.deepEqual(streams.sort(), ["stderr", "stdout"]);
    });
  });
}

test("the pool says what it is", async () => assert.equal((await new SandboxClient().poolStatus()).enabled, false));
