// Packs web/dist into the daemon's source: `node pack.mjs`. With --check nothing is
// written, and it fails if what is there is not what web/dist has, or if the first load
// of the page has grown beyond what it may take.
import { readFileSync, readdirSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from "node:zlib";

const from = new URL("dist/", import.meta.url);
const to = new URL("../internal/api/console/dist/", import.meta.url);
const firstLoad = 200 << 10;

const assets = readdirSync(new URL("assets/", from)).sort();
const br = (data) => brotliCompressSync(data, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } });
const index = readFileSync(new URL("index.html", from), "utf8");

if (process.argv.includes("--check")) {
  const wrong = [];
  if (readFileSync(new URL("index.html", to), "utf8") !== index) wrong.push("index.html");
  const there = readdirSync(new URL("assets/", to)).sort();
  const wanted = assets.flatMap((name) => [`${name}.br`, `${name}.gz`]).sort();
  if (there.join() !== wanted.join()) wrong.push(`there are ${there.join(" ")}, and not ${wanted.join(" ")}`);
  else
    for (const name of assets) {
      const data = readFileSync(new URL(`assets/${name}`, from));
      if (!brotliDecompressSync(readFileSync(new URL(`assets/${name}.br`, to))).equals(data)) wrong.push(`${name}.br`);
      if (!gunzipSync(readFileSync(new URL(`assets/${name}.gz`, to))).equals(data)) wrong.push(`${name}.gz`);
    }
  if (wrong.length > 0) {
    console.error(`What the daemon has in it is not what web/ builds: ${wrong.join("; ")}. Run task web:build, and commit internal/api/console/dist.`);
    process.exit(1);
  }
} else {
  rmSync(to, { recursive: true, force: true });
  mkdirSync(new URL("assets/", to), { recursive: true });
  writeFileSync(new URL("index.html", to), index);
  for (const name of assets) {
    const data = readFileSync(new URL(`assets/${name}`, from));
    writeFileSync(new URL(`assets/${name}.br`, to), br(data));
    writeFileSync(new URL(`assets/${name}.gz`, to), gzipSync(data, { level: 9 }));
  }
}

const first = [...index.matchAll(/"\/assets\/([^"]+)"/g)].map(([, name]) => br(readFileSync(new URL(`assets/${name}`, from))).length);
const sum = first.reduce((all, one) => all + one, 0) + br(Buffer.from(index)).length;
console.log(`The first load takes ${sum} bytes of ${firstLoad}.`);
if (sum > firstLoad) {
  console.error("The first load is too large: load what not every page needs when it is opened.");
  process.exit(1);
}
