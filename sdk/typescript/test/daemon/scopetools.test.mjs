// The daemon's tools for agents, in a scope.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SandboxClient } from "@sandkasten/sdk";
import { scopeTools } from "@sandkasten/sdk/ai";

test("the daemon's tools work in a scope", async (t) => {
  const client = new SandboxClient();
  const scope = `agent:typescript-${process.pid}`;
  t.after(() => client.completeScope(scope));
  const tools = await scopeTools(client, scope);
  const call = async (name, input = {}) => JSON.parse(await tools.find((tool) => tool.name === name).execute(input));
  const open = tools.find((tool) => tool.name === "sandbox_open");
  assert.equal(open.parameters.type, "object");
  assert.ok(open.parameters.properties.session_key);
  const { sandbox_id, created } = await call("sandbox_open");
  assert.equal(created, true);
  await call("sandbox_fs_write", { sandbox_id, path: "a.txt", contents: "zwölf\n" });
  assert.equal((await call("sandbox_exec", { sandbox_id, cmd: ["cat", "a.txt"] })).stdout, "zwölf\n");
  assert.match((await call("sandbox_exec", { sandbox_id, cmd: "ls" })).error, /array/);
  const again = await scopeTools(client, scope);
  const second = JSON.parse(await again.find((tool) => tool.name === "sandbox_open").execute({}));
  assert.deepEqual([second.sandbox_id, second.created], [sandbox_id, false]);
});
