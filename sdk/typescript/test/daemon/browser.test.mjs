// The package in a browser: a page of another origin than the daemon's works with a session.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const { SANDKASTEN_URL: baseUrl, SANDKASTEN_API_KEY: apiKey } = process.env;
const dist = new URL("../../dist/esm/", import.meta.url);

const script = `
import { SandboxClient } from "/sdk/index.js";
import { sandboxTools, callTool } from "/sdk/ai.js";
const report = {};
try {
  const client = new SandboxClient(${JSON.stringify({ baseUrl, apiKey, maxRetries: 0 })});
  const session = await client.createSession({ image: "base", ttlSeconds: 600 });
  report.exec = (await session.exec("echo hello from $0")).exitCode;
  report.stream = "";
  for await (const event of session.execStream("echo one; echo two")) if (event.type === "chunk") report.stream += event.text;
  await session.upload("f", new Blob(["text"]));
  report.file = await session.readText("f");
  report.tool = await callTool(sandboxTools(session), "exec", { command: "cat f" });
  const terminal = await session.openTerminal({ command: ["echo", "shown"] });
  report.terminal = "";
  for await (const bytes of terminal) report.terminal += new TextDecoder().decode(bytes);
  await session.destroy();
  report.error = await session.exec("true").catch((error) => [error.name, typeof error.requestId]);
} catch (error) {
  report.failed = String(error);
}
await fetch("/report", { method: "POST", body: JSON.stringify(report) });
`;

/** Serves the page and the package, and gives what the page reports. */
async function pages(t) {
  let report;
  const reported = new Promise((resolve) => (report = resolve));
  const server = createServer(async (request, response) => {
    const serve = (type, text) => response.writeHead(200, { "Content-Type": type }).end(text);
    if (request.url === "/report") {
      let text = "";
      for await (const piece of request.setEncoding("utf8")) text += piece;
      report(JSON.parse(text));
      serve("text/plain", "");
    } else if (request.url.startsWith("/sdk/")) {
      serve("text/javascript", await readFile(new URL(request.url.slice("/sdk/".length), dist)));
    } else {
      serve("text/html", `<!doctype html><script type="module">${script}</script>`);
    }
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => server.close().closeAllConnections?.());
  return { port: server.address().port, reported };
}

/** Opens a page of an origin that leads to us, and gives its report. */
async function visit(t, origin) {
  const { port, reported } = await pages(t);
  const profile = await mkdtemp(join(tmpdir(), "sandkasten-chromium-"));
  const browser = spawn("chromium", [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
    `--user-data-dir=${profile}`, `--host-resolver-rules=MAP ${new URL(origin).hostname} 127.0.0.1:${port}`, "--remote-debugging-port=0", origin,
  ], { stdio: ["ignore", "ignore", "pipe"], detached: true });
  let log = "";
  browser.stderr.setEncoding("utf8").on("data", (text) => (log += text));
  const ended = new Promise((exit) => browser.once("exit", exit));
  t.after(async () => {
    try {
      process.kill(-browser.pid, "SIGKILL"); // with the processes that it has made
    } catch (error) {
      assert.equal(error.code, "ESRCH"); // they have ended
    }
    // Once the exit of a browser that died at its start was never told.
    if (browser.exitCode === null && browser.signalCode === null) {
      await once(browser, "exit", { signal: AbortSignal.timeout(10_000) }).catch(() => browser.unref());
    }
    await rm(profile, { recursive: true, force: true, maxRetries: 10 });
  });
  return Promise.race([reported, ended.then((code) => assert.fail(`chromium ended with ${code}: ${log}`))]);
}

const skip = chromium() ? false : "there is no chromium";

function chromium() {
  try {
    return execFileSync("chromium", ["--version"], { stdio: "pipe" });
  } catch {
    return undefined;
  }
}

test("a page of a configured origin uses a session", { skip, timeout: 180_000 }, async (t) => {
  assert.deepEqual(await visit(t, "http://sdk.test"), {
    exec: 0,
    stream: "one\ntwo\n",
    file: "text",
    tool: "text\n[exit code 0; directory /workspace]",
    terminal: "shown\r\n",
    error: ["ConflictError", "string"],
  });
});

test("a page of another origin is kept out", { skip, timeout: 180_000 }, async (t) => {
  const { failed } = await visit(t, "http://other.test");
  assert.match(failed, /ConnectionError/);
});
