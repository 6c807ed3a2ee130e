// Every operation of the API is called by something, or ../contract/operations.json says why not.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { Process, SandboxClient, Session } from "../../dist/esm/index.js";
import { json } from "./fake.mjs";

const read = async (path) => JSON.parse(await readFile(new URL(path, import.meta.url), "utf8"));

/** Calls all that has an operation, whatever comes of it; all names are x. */
async function callEverything(client, session) {
  const read = async (stream) => {
    for await (const _ of stream);
  };
  const files = (f) => [
    f.write("x", "x"),
    f.write("x", new Uint8Array(1)),
    f.uploadFiles({ x: "x" }, "x"),
    f.read("x"),
    f.list("x"),
    f.stat("x"),
    f.edit("x", "a", "b"),
    f.makeDir("x"),
    f.move("x", "y"),
    f.copy("x", "y"),
    f.remove("x"),
    f.chmod("x", "0644"),
    f.glob("x"),
    f.grep("x"),
    f.downloadArchive("x"),
    f.uploadArchive("x", new Uint8Array(1)),
  ];
  const process = session.processes.get("x");
  await Promise.allSettled([
    client.info(),
    client.poolStatus(),
    client.hostHistory(),
    client.hostFindings(),
    client.allUsage(),
    client.usageDays(),
    client.listInspections(),
    client.createSession(),
    client.getSession("x"),
    client.listSessions(),
    client.createWorkspace(),
    client.getWorkspace("x"),
    client.listWorkspaces(),
    client.deleteWorkspace("x"),
    client.setSecret("x", { hosts: ["x"], value: "x" }),
    client.getSecret("x"),
    client.listSecrets(),
    client.deleteSecret("x"),
    client.me(),
    client.myUsage(),
    client.userUsage("x"),
    client.createUser("x"),
    client.getUser("x"),
    client.listUsers(),
    client.updateUser("x", {}),
    client.deleteUser("x"),
    client.createKey(),
    client.listKeys(),
    client.revokeKey("x"),
    client.completeScope("x:x"),
    client.changeSessions("stop", ["x"]),
    client.agentTools(),
    client.listAudit(),
    client.listSnapshots(),
    client.getSnapshot("x"),
    client.deleteSnapshot("x"),
    client.downloadSnapshot("x"),
    client.uploadSnapshot(new Blob(["x"])),
    client.listImages(),
    client.getImage("x"),
    client.deleteImage("x"),
    client.pullImage("x"),
    client.buildImage("x"),
    client.commitImage("x", {}),
    client.importImage("x", new Blob(["x"])),
    client.listImageJobs(),
    client.getImageJob("x"),
    client.cancelImageJob("x"),
    client.waitImageJob("x"),
    read(client.events()),
    session.exec("x"),
    read(session.execStream("x")),
    read(session.attach("x")),
    session.runCode("1"),
    session.runCode("1", { onStdout() {} }),
    session.createContext("python"),
    session.contexts(),
    session.context("x").refresh(),
    session.context("x").run("1"),
    session.context("x").run("1", { onStdout() {} }),
    session.context("x").getRun("x"),
    session.context("x").followRun("x"),
    session.context("x").interrupt(),
    session.context("x").restart(),
    session.context("x").delete(),
    session.execs(),
    session.shells(),
    session.closeShell("x"),
    session.openTerminal(),
    read(session.watch("x")),
    session.refresh(),
    session.update({}),
    session.heartbeat(),
    session.stats(),
    session.statsHistory(),
    session.network(),
    session.setNetwork({ mode: "none" }),
    session.allowNetwork(["x"]),
    session.networkLog(),
    read(session.followNetworkLog()),
    session.pause(),
    session.resume(),
    session.stop(),
    session.start(),
    session.snapshot(),
    session.fork(),
    session.destroy(),
    session.processes.run(["x"]),
    read(session.processes.runStream(["x"])),
    session.processes.list(),
    process.info(),
    process.writeStdin("x"),
    process.output(),
    process.wait(),
    process.signal("TERM"),
    process.kill(),
    process.resize(1, 1),
    session.ports.list(),
    session.ports.preview(1),
    session.ports.connect(1),
    ...files(session),
    ...files(client.workspaceFiles("x")),
  ]);
}

/** A client of a daemon that refuses everything but one session, and what it asks, as "GET /v1/sessions/x". */
async function refusing() {
  const seen = new Set();
  const note = (method, url) => seen.add(`${method} ${new URL(url).pathname}`);
  let first = true; // makes the session of which the rest is asked
  const fetch = async (url, { method = "GET" } = {}) => {
    note(method, url);
    if (first) {
      first = false;
      return json(201, { id: "x", status: "running" });
    }
    return json(400, { error: "no", code: "invalid_argument" });
  };
  class webSocket extends EventTarget {
    constructor(url) {
      super();
      note("GET", url);
      queueMicrotask(() => this.dispatchEvent(new Event("error")));
    }
    close() {}
  }
  const client = new SandboxClient({ baseUrl: "http://daemon", apiKey: "key", fetch, webSocket });
  const session = await client.createSession();
  assert(session instanceof Session && session.processes.get("x") instanceof Process);
  return { client, session, seen };
}

/** What callEverything asks. */
async function called() {
  const { client, session, seen } = await refusing();
  await callEverything(client, session);
  return seen;
}

test("every operation of the API is called, or left out for a reason", async () => {
  const { paths } = await read("../../../../internal/api/v1/openapi.json");
  const { left_out } = await read("../../../contract/operations.json");
  const leftOut = new Set(left_out.filter(({ sdks }) => sdks.includes("typescript")).flatMap(({ operations }) => operations));
  const seen = await called();
  const wrong = [];
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, { operationId }] of Object.entries(methods)) {
      const there = seen.delete(`${method.toUpperCase()} ${path.replace(/\{\w+\}/g, "x")}`);
      if (there === leftOut.has(operationId)) wrong.push(`${operationId}: ${there ? "is called, and left out" : "nothing calls it"}`);
    }
  }
  assert.deepEqual(wrong, [], "teach the SDK, or say in sdk/contract/operations.json why not");
  assert.deepEqual([...seen], [], "the API has no such operations");
});

test("the documentation's reference shows for each operation a call that makes it", async () => {
  const { paths } = await read("../../../../internal/api/v1/openapi.json");
  const { operations: shown } = await read("../../../../internal/api/site/assets/calls.json");
  const { left_out } = await read("../../../contract/operations.json");
  const leftOut = new Set(left_out.filter(({ sdks }) => sdks.includes("typescript")).flatMap(({ operations }) => operations));
  const Run = (async () => {}).constructor;
  const wrong = [];
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, { operationId }] of Object.entries(methods)) {
      const call = shown[operationId]?.typescript;
      if ((call === undefined) !== leftOut.has(operationId)) wrong.push(`${operationId}: the reference shows ${call}`);
      if (call === undefined) continue;
      const { client, session, seen } = await refusing();
      seen.clear();
      const names = { client, session, process: session.processes.get("x"), workspace: client.workspaceFiles("x"), readFile: async () => new Uint8Array(1), console: { log() {} } };
      await new Run(...Object.keys(names), call)(...Object.values(names)).catch(() => {});
      const wanted = new RegExp(`^${method.toUpperCase()} ${path.replace(/\{\w+\}/g, "[^/]+")}$`);
      if (![...seen].some((asked) => wanted.test(asked))) wrong.push(`${operationId}: ${call} asks ${[...seen]}`);
    }
  }
  assert.deepEqual(wrong, [], "mend internal/api/site/assets/calls.json");
});
