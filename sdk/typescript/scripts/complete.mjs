// Puts beside what tsc has written what a package needs. The license is the repository's: a copy
// of this directory elsewhere is built without it.
import { copyFileSync, existsSync } from "node:fs";

copyFileSync("src/cjs.json", "dist/cjs/package.json");
if (existsSync("../../LICENSE")) copyFileSync("../../LICENSE", "LICENSE");
