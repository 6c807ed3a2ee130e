// The quickstart of the Vercel AI SDK as it is, with a real daemon and a stand-in for the model.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const quickstart = fileURLToPath(new URL("../../../../quickstart/vercel-ai", import.meta.url));
const key = "model-key";

/** A stand-in for the Messages API: the real wire format, replies written down before. */
async function model(t, replies) {
  const requests = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const text of request.setEncoding("utf8")) body += text;
    const answer = (status, json) => response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(json));
    const refuse = (status, type, message) => answer(status, { type: "error", error: { type, message } });
    if (request.headers["x-api-key"] !== key || request.headers["anthropic-version"] === undefined) return refuse(401, "authentication_error", "wrong key");
    if (request.method !== "POST" || request.url !== "/v1/messages") return refuse(404, "not_found_error", `no ${request.url}`);
    if (requests.length === replies.length) return refuse(400, "invalid_request_error", "no reply is left");
    requests.push(JSON.parse(body));
    const content = replies[requests.length - 1];
    const stop_reason = content.some((block) => block.type === "tool_use") ? "tool_use" : "end_turn";
    const usage = { input_tokens: 10, output_tokens: 10 };
    answer(200, { id: "msg_01", type: "message", role: "assistant", model: "claude-sonnet-4-5", content, stop_reason, stop_sequence: null, usage });
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => new Promise((closed) => server.close(closed).closeAllConnections?.()));
  return { requests, url: `http://127.0.0.1:${server.address().port}/v1` };
}

const use = (number, name, input) => ({ type: "tool_use", id: `toolu_0${number}`, name, input });

test("an agent of the Vercel AI SDK works in a sandbox", async (t) => {
  const program = "print([n for n in range(2, 30) if all(n % d for d in range(2, n))])\n";
  const { requests, url } = await model(t, [
    [{ type: "text", text: "First the file." }, use(1, "write", { path: "p.py", content: program })],
    [use(2, "exec", { command: "python3 p.py" }), use(3, "read", { path: "absent" })],
    [{ type: "text", text: "It printed the primes." }],
  ]);
  // Nothing else of the environment: it may have the keys of real models.
  const { PATH, HOME, SANDKASTEN_URL, SANDKASTEN_API_KEY } = process.env;
  const env = { PATH, HOME, SANDKASTEN_URL, SANDKASTEN_API_KEY, ANTHROPIC_API_KEY: key, ANTHROPIC_BASE_URL: url };
  const { stdout } = await promisify(execFile)("npm", ["start", "--silent", "--", "Print", "primes"], { cwd: quickstart, env, timeout: 60_000 });

  assert.match(stdout, /^> write .*\n> exec .*\n> read .*\nIt printed the primes\.\n$/);
  const [first, , last] = requests;
  assert.deepEqual(first.tools.map((tool) => tool.name), ["exec", "read", "write", "edit", "list"]);
  assert.match(JSON.stringify(first.messages), /Print primes/);
  const results = last.messages.at(-1).content;
  assert.deepEqual(results.map((block) => block.tool_use_id), ["toolu_02", "toolu_03"]);
  const [printed, absent] = results.map((block) => JSON.stringify(block.content));
  assert.match(printed, /\[2, 3, 5, 7, 11, 13, 17, 19, 23, 29\]/);
  assert.match(absent, /Error: .*absent/);
});
