import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

test("the types are those of the daemon's document", async () => {
  const check = promisify(execFile)("npm", ["run", "--silent", "generate", "--", "--check"], { cwd: fileURLToPath(new URL("../..", import.meta.url)) });
  await assert.doesNotReject(check, "openapi.json has changed: npm run generate");
});
