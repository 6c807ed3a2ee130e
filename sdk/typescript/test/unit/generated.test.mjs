import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const npm = (...args) => promisify(execFile)("npm", args, { cwd: fileURLToPath(new URL("../..", import.meta.url)) });

test("the types are those of the daemon's document", async () => {
  await assert.doesNotReject(npm("run", "--silent", "generate", "--", "--check"));
});

test("the reference can be generated, without warnings", async () => {
  await assert.doesNotReject(npm("run", "--silent", "reference", "--", "--emit", "none"));
});
