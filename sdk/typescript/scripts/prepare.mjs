// Builds where nothing is built, or the sources are newer. npm runs this for `npm ci` here, and
// again for each `npm install` of this directory elsewhere, which must not take dist away from
// programs that run on it.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";

const newest = (dir) => Math.max(...readdirSync(dir, { recursive: true }).map((name) => statSync(`${dir}/${name}`).mtimeMs));

if (existsSync("dist/cjs/package.json") && statSync("dist/cjs/package.json").mtimeMs >= newest("src")) {
  console.log("dist is built");
} else if (existsSync("node_modules/.bin/tsc")) {
  execFileSync("npm", ["run", "build"], { stdio: "inherit" });
} else {
  console.error("The SDK is not built, and what builds it is not installed: run npm ci in its directory first.");
  process.exit(1);
}
