// The installed package on other engines than Node: the cases of the contract, the README's programs, and a terminal over
// the engine's own WebSocket. The engines are those of test/runtimes, which `npm ci --prefix test/runtimes` installs.
import assert from "node:assert/strict";
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { install, programs, root, run } from "./installed.mjs";

const bin = (name) => join(root, "test/runtimes/node_modules/.bin", name);
const contract = "sdk/typescript/test/daemon/contract.test.mjs";
const engines = {
  bun: {
    program: (file) => [bin("bun"), file],
    tests: [bin("bun"), "test", "--timeout", "60000", `./${contract}`],
  },
  deno: {
    program: (file) => [bin("deno"), "run", "--quiet", "--allow-net", "--allow-env", file],
    tests: [bin("deno"), "test", "--quiet", "--no-check", "--allow-net", "--allow-env", "--allow-read", contract],
  },
};

const terminal = `
  import { SandboxClient } from "@sandkasten/sdk";
  await using session = await new SandboxClient().createSession({ image: "base" });
  const terminal = await session.openTerminal({ command: ["sh", "-c", "read name; echo hello $name; exit 3"] });
  terminal.write("engine\\n");
  let shown = "";
  for await (const bytes of terminal) shown += new TextDecoder().decode(bytes);
  console.log(shown.includes("hello engine"), terminal.exitCode);
`;

let dir;

// The tests lie where they find sdk/contract as they do at home, and the package as users do.
before(async () => {
  dir = await install();
  await mkdir(join(dir, "sdk/typescript/test"), { recursive: true });
  await cp(join(root, "test/daemon"), join(dir, "sdk/typescript/test/daemon"), { recursive: true });
  await cp(join(root, "../contract"), join(dir, "sdk/contract"), { recursive: true });
});

after(() => rm(dir, { recursive: true }));

const cases = JSON.parse(await readFile(join(root, "../contract/cases.json"), "utf8"));
const readme = programs(await readFile(join(root, "README.md"), "utf8"));

/** What was printed, but for how an engine lays out an object. */
const shown = (text) => text.replace(/"/g, "'").replace(/,?\s+/g, " ").trim();

for (const [name, { program, tests }] of Object.entries(engines)) {
  test(`on ${name} the README's programs do what it says`, async () => {
    for (const [i, { program: text, printed }] of readme.entries()) {
      const file = `${name}${i}.mjs`;
      await writeFile(join(dir, file), text);
      assert.equal(shown(await run(dir, ...program(file))), shown(printed), text);
    }
  });

  test(`on ${name} a terminal works with the engine's own WebSocket`, async () => {
    await writeFile(join(dir, "terminal.mjs"), terminal);
    assert.equal(await run(dir, ...program("terminal.mjs")), "true 3\n");
  });

  test(`on ${name} the cases of the contract hold`, async () => {
    const printed = await run(dir, "sh", "-c", '"$@" 2>&1', "sh", ...tests);
    const [, passed] = /(\d+) pass/.exec(printed) ?? [];
    assert.equal(Number(passed), cases.length, printed);
  });
}
