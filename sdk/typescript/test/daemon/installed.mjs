// The package as users have it: packed, and installed in a directory of its own.
import { execFile } from "node:child_process";
import { mkdtemp, readdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const exec = promisify(execFile);

export const root = fileURLToPath(new URL("../..", import.meta.url));

/** Runs a program in a directory, and gives what it prints. */
export async function run(dir, program, ...args) {
  const { stdout } = await exec(program, args, { cwd: dir, timeout: 300_000 }).catch((error) => {
    throw new Error(`${program} ${args.join(" ")}: ${error.message}\n${error.stdout}${error.stderr}`);
  });
  return stdout;
}

/** Makes a directory with the package in its node_modules. The caller removes it. */
export async function install() {
  const dir = await mkdtemp(join(tmpdir(), "sandkasten-sdk-"));
  // Built already: prepare would do so again while other tests use it.
  await run(root, "npm", "pack", "--ignore-scripts", "--pack-destination", dir);
  const [artefact] = (await readdir(dir)).filter((name) => name.endsWith(".tgz"));
  await writeFile(join(dir, "package.json"), '{ "private": true, "type": "module" }');
  await run(dir, "npm", "install", "--offline", "--no-audit", "--no-fund", `./${artefact}`);
  return dir;
}

/** The README's programs with what they print. */
export function programs(readme) {
  return [...readme.matchAll(/```js\n(.*?)```(?:\s*prints)?\s*```text\n(.*?)```/gs)].map(([, program, printed]) => ({ program, printed }));
}
