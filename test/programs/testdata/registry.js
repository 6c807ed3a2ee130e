// A registry of the packages in /srv/packages, and of a package skdemo with a program.
const http = require("node:http");
const fs = require("node:fs");
const path = require("node:path");
const crypto = require("node:crypto");
const { execFileSync } = require("node:child_process");

const address = "http://127.0.0.1:8098";
const folder = "/srv/packages";

const demo = fs.mkdtempSync("/tmp/skdemo-");
fs.writeFileSync(demo + "/package.json", JSON.stringify({ name: "skdemo", version: "1.0.0", main: "main.js", bin: { skdemo: "bin.js" } }));
fs.writeFileSync(demo + "/main.js", 'module.exports = "skdemo is here";\n');
fs.writeFileSync(demo + "/bin.js", '#!/usr/bin/env node\nconsole.log("skdemo runs");\n', { mode: 0o755 });
execFileSync("npm", ["pack", "--silent", "--pack-destination", folder], { cwd: demo });

const packages = {};
for (const file of fs.readdirSync(folder)) {
  const data = fs.readFileSync(path.join(folder, file));
  const manifest = JSON.parse(execFileSync("tar", ["-xzOf", path.join(folder, file), "package/package.json"]));
  const dist = {
    tarball: `${address}/-/files/${file}`,
    shasum: crypto.createHash("sha1").update(data).digest("hex"),
    integrity: "sha512-" + crypto.createHash("sha512").update(data).digest("base64"),
  };
  const known = (packages[manifest.name] ??= { name: manifest.name, versions: {}, "dist-tags": {}, time: {} });
  known.versions[manifest.version] = { ...manifest, dist };
  known["dist-tags"].latest = manifest.version;
  known.time[manifest.version] = "2024-01-01T00:00:00.000Z";
}

http
  .createServer((request, response) => {
    const name = decodeURIComponent(new URL(request.url, address).pathname.slice(1));
    if (name.startsWith("-/files/")) {
      return fs.createReadStream(path.join(folder, path.basename(name))).pipe(response);
    }
    const [, whole, version] = /^((?:@[^/]+\/)?[^/]+)(?:\/(.+))?$/.exec(name) ?? [];
    const known = packages[whole];
    const found = version ? (known?.versions[version] ?? known?.versions[known["dist-tags"][version]]) : known;
    response.writeHead(found ? 200 : 404, { "content-type": "application/json" });
    response.end(JSON.stringify(found ?? { error: "not found" }));
  })
  .listen(8098, "127.0.0.1");
