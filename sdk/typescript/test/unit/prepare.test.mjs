import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";

/** A copy of the package outside of its repository, as npm meets it in `npm install FOLDER`. */
function copy(t) {
  const dir = mkdtempSync(join(tmpdir(), "sdk-"));
  t.after(() => rmSync(dir, { recursive: true }));
  cpSync("scripts", join(dir, "scripts"), { recursive: true });
  for (const path of ["src", "dist/cjs", "node_modules/.bin"]) mkdirSync(join(dir, path), { recursive: true });
  writeFileSync(join(dir, "src/cjs.json"), "{}");
  writeFileSync(join(dir, "package.json"), JSON.stringify({ scripts: { build: "echo built > built" } }));
  return dir;
}

const prepare = (cwd) => spawnSync(process.execPath, ["scripts/prepare.mjs"], { cwd, encoding: "utf8" });

test("a copy elsewhere is built without the repository's license", (t) => {
  const dir = copy(t);
  execFileSync(process.execPath, ["scripts/complete.mjs"], { cwd: dir });
  assert.equal(readFileSync(join(dir, "dist/cjs/package.json"), "utf8"), "{}");
  assert.ok(!existsSync(join(dir, "LICENSE")));
});

test("what is built is left alone, and what is older than its sources is built", (t) => {
  const dir = copy(t);
  assert.match(prepare(dir).stderr, /run npm ci in its directory first/);
  writeFileSync(join(dir, "node_modules/.bin/tsc"), "");
  execFileSync(process.execPath, ["scripts/complete.mjs"], { cwd: dir });
  assert.equal(prepare(dir).stdout, "dist is built\n");
  assert.ok(!existsSync(join(dir, "built")));
  utimesSync(join(dir, "src/cjs.json"), new Date(), new Date(Date.now() + 10_000));
  assert.equal(prepare(dir).status, 0);
  assert.ok(existsSync(join(dir, "built")));
});
