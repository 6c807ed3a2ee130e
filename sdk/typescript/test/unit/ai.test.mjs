import assert from "node:assert/strict";
import { test } from "node:test";

import { anthropicContent, anthropicTools, callTool, chatTools, openAIChatImages, openAIOutput, openAITools, sandboxTools, scopeTools, vercelTools } from "../../dist/esm/ai.js";
import { NotFoundError, SandboxClient, UnavailableError } from "../../dist/esm/index.js";

const ended = { exitCode: 0, cause: "exited", cwd: "/workspace", timedOut: false, shellRestarted: false, truncated: false, output: "" };

/** Tools of a session that is made of the given methods. */
const toolsOf = (session, options) => sandboxTools(session, options);

for (const { name, result, want } of [
  { name: "output", result: { output: "hi\n" }, want: "hi\n[exit code 0; directory /workspace]" },
  { name: "no newline", result: { output: "hi", exitCode: 2 }, want: "hi\n[exit code 2; directory /workspace]" },
  { name: "no output", result: {}, want: "[exit code 0; directory /workspace]" },
  { name: "a timeout", result: { exitCode: 124, cause: "timeout", timedOut: true }, want: "[exit code 124; killed, because its time was up; directory /workspace]" },
  { name: "memory", result: { exitCode: 137, cause: "oom_killed" }, want: "[exit code 137; oom killed; directory /workspace]" },
  { name: "a refused host", result: { exitCode: 6, networkDenied: [{ name: "b.test", why: "no entry" }, { address: "198.51.100.7", why: "no entry" }, { name: "b.test", why: "no entry" }] }, want: "[exit code 6; the sandbox's network refused 198.51.100.7 and b.test; directory /workspace]" },
  { name: "a refused host that an entry opens", result: { exitCode: 6, networkDenied: [{ name: "git.test", address: "10.20.0.7", why: "it is private", entry: "@company" }] }, want: "[exit code 6; the sandbox's network refused git.test, which its allow list opens with @company; directory /workspace]" },
  { name: "a refused host that did not matter", result: { networkDenied: [{ name: "b.test", why: "no entry" }] }, want: "[exit code 0; directory /workspace]" },
  { name: "a full disk", result: { exitCode: 1, diskFull: true }, want: "[exit code 1; the disk is full; directory /workspace]" },
  { name: "a new shell", result: { shellRestarted: true }, want: "[exit code 0; in a new shell: the one before had ended, with its variables; directory /workspace]" },
]) {
  test(`exec tells of ${name}`, async () => {
    const tools = toolsOf({ exec: async () => ({ ...ended, ...result }) });
    assert.equal(await callTool(tools, "exec", { command: "x" }), want);
  });
}

test("long output is cut in the middle at whole lines, and the whole is kept in a file", async () => {
  const output = Array.from({ length: 1000 }, (_, i) => `line ${i}\n`).join("");
  const written = {};
  const tools = toolsOf(
    { exec: async () => ({ ...ended, output }), write: async (path, text) => (written[path] = text) },
    { maxChars: 1000 },
  );
  const answer = await callTool(tools, "exec", { command: "x" });
  assert.match(answer, /^line 0\nline 1\n/);
  assert.match(answer, /\nline \d+\n\[\.\.\. \d+ characters are left out here; all of it is in \.sandkasten\/output-1\.txt; .* \.\.\.\]\nline \d+\n/);
  assert.match(answer, /\nline 999\n\[exit code 0/);
  assert(answer.length < 1400, `${answer.length} characters`);
  assert.deepEqual(written, { ".sandkasten/output-1.txt": output });
});

test("that there is no network is said in the description, and once when it was missed", async () => {
  const output = "curl: (6) Could not resolve host: example.com\n";
  const session = { info: { networkMode: "none" }, exec: async (command) => ({ ...ended, output: command === "curl" ? output : "fine\n" }) };
  const tools = toolsOf(session);
  assert.match(tools[0].description, /has no network/);
  assert.doesNotMatch(await callTool(tools, "exec", { command: "x" }), /no network/);
  assert.match(await callTool(tools, "exec", { command: "curl" }), /directory \/workspace\]\n\[The sandbox has no network: .*\]$/);
  assert.doesNotMatch(await callTool(tools, "exec", { command: "curl" }), /no network/);
  const online = toolsOf({ ...session, info: { networkMode: "internet" } });
  assert.doesNotMatch(online[0].description, /no network/);
  assert.doesNotMatch(await callTool(online, "exec", { command: "curl" }), /no network/);
});

test("no character is cut in two", async () => {
  for (const pad of ["", "x"]) {
    const output = pad + "😀".repeat(2000);
    const tools = toolsOf({ exec: async () => ({ ...ended, output, truncated: true }), write: async () => {} }, { maxChars: 1000 });
    const answer = await callTool(tools, "exec", { command: "x" });
    assert(answer.isWellFormed?.() ?? true);
    assert.match(answer, /its first and last parts are in/);
  }
});

test("timeouts are seconds", async () => {
  const seen = [];
  const tools = toolsOf({ exec: async (_, { timeoutMs }) => (seen.push(timeoutMs), ended) }, { execTimeoutSeconds: 60 });
  await callTool(tools, "exec", { command: "x" });
  await callTool(tools, "exec", '{"command":"x","timeout_seconds":5}');
  assert.deepEqual(seen, [60_000, 5_000]);
});

const file = (text) => ({
  stat: async () => ({ size: text.length }),
  read: async () => new TextEncoder().encode(text),
});

for (const { name, text, input, want, maxChars } of [
  { name: "a whole file", text: "a\nb\n", want: "a\nb" },
  { name: "some lines", text: "a\nb\nc\n", input: { start_line: 2, max_lines: 1 }, want: "b\n[lines 2 to 2 of 3; use start_line for others]" },
  { name: "what fits", text: "aaaa\nbbbb\ncccc\n", maxChars: 10, want: "aaaa\nbbbb\n[lines 1 to 2 of 3; use start_line for others]" },
  { name: "nothing behind the end", text: "a\n", input: { start_line: 5 }, want: "[the file has 1 lines]" },
  { name: "an empty file", text: "", want: "The file is empty." },
  { name: "a binary file", text: "a\0b", want: "Error: f is a binary file of 3 bytes; use exec to look into it." },
]) {
  test(`read shows ${name}`, async () => {
    assert.equal(await callTool(toolsOf(file(text), { maxChars }), "read", { path: "f", ...input }), want);
  });
}

test("a line that does not fit is cut", async () => {
  const answer = await callTool(toolsOf(file("x".repeat(5000) + "\nb\n"), { maxChars: 1000 }), "read", { path: "f" });
  assert.match(answer, /^x{400}\n\[\.\.\. 4000 characters are left out here; .* \.\.\.\]\nx{600}\n\[line 1 of 2\]$/);
});

test("what is too large is refused", async () => {
  const tools = toolsOf({ stat: async () => ({ size: 1 << 30 }) });
  assert.match(await callTool(tools, "read", { path: "f" }), /^Error: f has 1073741824 bytes/);
});

test("write, edit and list answer in words", async () => {
  const seen = [];
  const tools = toolsOf({
    write: async (...args) => seen.push(args.slice(0, 2)),
    edit: async (path, old, text, { count }) => (seen.push([path, old, text, count]), { replaced: 1, diff: "+b\n" }),
    list: async () => [{ name: "d", type: "dir" }, { name: "f", type: "file", size: 3 }, { name: "l", type: "symlink", target: "f" }, { name: "p", type: "fifo" }],
  });
  assert.equal(await callTool(tools, "write", { path: "f", content: "ä" }), "Wrote 2 bytes to f.");
  assert.equal(await callTool(tools, "edit", { path: "f", old_text: "a", new_text: "b" }), "Replaced 1 times.\n+b\n");
  await callTool(tools, "edit", { path: "f", old_text: "a", new_text: "b", replace_all: true });
  assert.equal(await callTool(tools, "list", "{}"), "d/\nf (3 bytes)\nl -> f\np (fifo)");
  assert.deepEqual(seen, [["f", "ä"], ["f", "a", "b", 1], ["f", "a", "b", undefined]]);
});

test("mistakes of the model are told to it, others are thrown", async () => {
  const missing = new NotFoundError("no such file", { status: 404, code: "not_found" });
  const gone = new UnavailableError("gone", { status: 503, code: "unavailable" });
  const tools = toolsOf({ stat: async () => { throw missing; }, exec: async () => { throw gone; } });
  assert.equal(await callTool(tools, "read", { path: "f" }), "Error: no such file");
  assert.equal(await callTool(tools, "read", {}), "Error: path is missing");
  assert.equal(await callTool(tools, "read", { path: 7 }), "Error: path must be a text");
  assert.equal(await callTool(tools, "exec", { command: "x", timeout_seconds: "5" }), "Error: timeout_seconds must be a whole number");
  assert.equal(await callTool(tools, "read", "{"), "Error: the arguments are not valid JSON.");
  assert.equal(await callTool(tools, "read", "7"), "Error: the arguments are not an object.");
  assert.equal(await callTool(tools, "rm", {}), "Error: there is no tool rm; there are exec, read, write, edit, list.");
  await assert.rejects(callTool(tools, "exec", { command: "x" }), gone);
});

test("tools are written as each API wants them", async () => {
  const tools = toolsOf({ exec: async (_, { signal }) => ({ ...ended, output: String(signal.aborted) }) });
  for (const { parameters } of tools) {
    assert(parameters.required.every((name) => name in parameters.properties));
  }
  assert.deepEqual(Object.keys(openAITools(tools)[0]), ["type", "name", "description", "parameters", "strict"]);
  assert.equal(chatTools(tools)[0].function.name, "exec");
  assert.equal(anthropicTools(tools)[0].input_schema.type, "object");
  const vercel = vercelTools(tools, (schema) => ({ schema }));
  assert.deepEqual(Object.keys(vercel), ["exec", "read", "write", "edit", "list"]);
  assert.match(await vercel.exec.execute({ command: "x" }, { abortSignal: AbortSignal.abort() }), /^true/);
});

test("a list leaves the directory of kept outputs out, unless it is of that", async () => {
  const entries = [".sandkasten", ".sandkasten/output-1.txt", "src"].map((name) => ({ name, type: "dir" }));
  const tools = toolsOf({ list: async (path) => (path === "." ? entries : [{ name: "output-1.txt", type: "file", size: 3 }]) });
  assert.equal(await callTool(tools, "list", {}), "src/");
  assert.match(await callTool(tools, "list", { path: ".sandkasten" }), /output-1\.txt/);
});

test("pictures of the daemon's tools are given in the form of each model", async () => {
  const content = [{ type: "text", text: "{}" }, { type: "image", mimeType: "image/png", data: "iVBORw0KGgo=" }];
  const fetch = async (url) => Response.json(String(url).includes("agent-tools") ? [{ name: "sandbox_run_code", description: "", input_schema: {} }] : { result: { content } });
  const client = new SandboxClient({ baseUrl: "http://daemon", apiKey: "key", fetch });
  const [tool] = await scopeTools(client, "agent:a");
  const result = await tool.call({ code: "plot()" });
  assert.deepEqual(result, { text: "{}", isError: false, images: [{ mediaType: "image/png", base64: "iVBORw0KGgo=" }] });
  assert.equal(await tool.execute({ code: "plot()" }), "{}");
  const url = "data:image/png;base64,iVBORw0KGgo=";
  assert.deepEqual(anthropicContent(result)[1], { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } });
  assert.deepEqual(openAIOutput(result)[1], { type: "input_image", detail: "auto", image_url: url });
  assert.deepEqual(openAIChatImages(result), [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }]);
  assert.deepEqual(openAIChatImages({ ...result, images: [] }), []);
});
