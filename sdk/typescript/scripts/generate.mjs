// Writes src/schemas.ts: the types of requests and answers in the daemon's OpenAPI document, with their fields named as
// TypeScript names them. With --check it writes nothing and fails if the file is another.
import { readFile, writeFile } from "node:fs/promises";

import openapiTS, { astToString } from "openapi-typescript";

const document = new URL("../../../internal/api/v1/openapi.json", import.meta.url);
const file = new URL("../src/schemas.ts", import.meta.url);

const camel = (name) => name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());

/** renamed gives a schema with its fields renamed, at every depth. */
function renamed(schema) {
  if (Array.isArray(schema)) return schema.map(renamed);
  if (typeof schema !== "object" || schema === null) return schema;
  // What openapi-typescript makes of examples of whole objects is longer than the object, and has the API's names.
  const { examples, ...rest } = schema;
  // Which of the fields go together is not of the type: openapi-typescript makes unknown of the whole of it.
  if (rest.anyOf?.every((one) => Object.keys(one).join() === "required")) delete rest.anyOf;
  const result = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, renamed(value)]));
  if (examples && schema.type !== "object") result.examples = examples;
  if (schema.properties) {
    result.properties = Object.fromEntries(Object.entries(schema.properties).map(([name, property]) => [camel(name), renamed(property)]));
  }
  if (schema.required) result.required = schema.required.map(camel);
  return result;
}

const { openapi, info, components } = JSON.parse(await readFile(document, "utf8"));
const nodes = await openapiTS({ openapi, info, paths: {}, components: { schemas: renamed(components.schemas) } }, { rootTypes: true, silent: true });
const text = `// Made by scripts/generate.mjs from the daemon's OpenAPI document; do not change it.\n\n${astToString(nodes)}`;

if (!process.argv.includes("--check")) {
  await writeFile(file, text);
} else if ((await readFile(file, "utf8")) !== text) {
  console.error("openapi.json has changed: npm run generate");
  process.exitCode = 1;
}
