// The package as it is published: packed, installed elsewhere, and used as the README and the examples say.
import assert from "node:assert/strict";
import { readFile, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { SandboxClient } from "../../dist/esm/index.js";
import { install, programs, root, run as runIn } from "./installed.mjs";

const tsc = join(root, "node_modules/.bin/tsc");
let dir;

const run = (program, ...args) => runIn(dir, program, ...args);

before(async () => {
  dir = await install();
});

after(() => rm(dir, { recursive: true }));

test("the package has no dependencies and nothing but what is used", async () => {
  const { dependencies } = JSON.parse(await readFile(join(dir, "node_modules/@sandkasten/sdk/package.json"), "utf8"));
  assert.equal(dependencies, undefined);
  assert.deepEqual((await readdir(join(dir, "node_modules"))).filter((name) => !name.startsWith(".")), ["@sandkasten"]);
  assert.deepEqual((await readdir(join(dir, "node_modules/@sandkasten/sdk"))).sort(), ["LICENSE", "README.md", "dist", "package.json"]);
});

test("it works as CommonJS", async () => {
  await writeFile(join(dir, "use.cjs"), `
    const { SandboxClient, NotFoundError } = require("@sandkasten/sdk");
    new SandboxClient().getSession("aaaaaaaaaaaaaaaaaaaaaaaaaa").catch((error) => console.log(error instanceof NotFoundError));
  `);
  assert.equal(await run("node", "use.cjs"), "true\n");
});

const readme = await readFile(join(root, "README.md"), "utf8");
const starts = programs(readme);

test("every program of the README says what it prints", () => {
  assert.equal(starts.length, readme.match(/```js\n/g).length);
});

for (const [i, { program, printed }] of starts.entries()) {
  test(`program ${i + 1} of the README does what it says`, async () => {
    await writeFile(join(dir, `readme${i}.js`), program);
    assert.equal(await run("node", `readme${i}.js`), printed);
  });
}

test("the program of the repository's README runs", async () => {
  const [, program] = /```js\n(.*?)```/s.exec(await readFile(join(root, "../../README.md"), "utf8"));
  await writeFile(join(dir, "repository.js"), program);
  assert.equal(await run("node", "repository.js"), "42\n");
});

test("the examples compile against the package's types, as ES modules and as CommonJS, and run", async () => {
  const expected = JSON.parse(await readFile(join(root, "examples/expected.json"), "utf8"));
  const names = (await readdir(join(root, "examples"))).filter((name) => name.endsWith(".ts"));
  assert.deepEqual(names.sort(), Object.keys(expected).sort());
  for (const name of names) {
    await writeFile(join(dir, name), await readFile(join(root, "examples", name)));
  }
  await symlink(join(root, "node_modules/@types"), join(dir, "node_modules/@types"));
  const strict = ["--strict", "--target", "es2022", "--types", "node"];
  await run(tsc, ...strict, "--module", "nodenext", "--outDir", "out", ...names);
  // Of a user that sees no other's sessions; an admin, as these tests are, sees everybody's.
  const admin = new SandboxClient();
  await admin.createUser("examples");
  const { key } = await admin.createKey({ user: "examples", name: "examples" });
  for (const name of names) {
    assert.equal(await run("env", `SANDKASTEN_API_KEY=${key}`, "node", join("out", name.replace(".ts", ".js"))), expected[name], name);
  }
  await admin.deleteUser("examples");
  await writeFile(join(dir, "use.cts"), 'import { SandboxClient, type Session } from "@sandkasten/sdk";\nexport const f = (s: Session): typeof SandboxClient => (s.id, SandboxClient);\n');
  await run(tsc, ...strict, "--module", "nodenext", "--noEmit", "use.cts");
});
