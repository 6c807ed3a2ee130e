// Draws openapi.json. Everything from the document becomes text, never markup.
"use strict";

function element(tag, text, ...children) {
  const e = document.createElement(tag);
  if (text) e.textContent = text;
  e.append(...children);
  return e;
}

function resolve(doc, value) {
  while (value && value.$ref) {
    value = value.$ref.replace("#/", "").split("/").reduce((at, key) => at[key], doc);
  }
  return value || {};
}

function typeOf(doc, schema) {
  const s = resolve(doc, schema);
  const types = [].concat(s.type || "any").filter((t) => t !== "null");
  if (types[0] === "array") return "list of " + typeOf(doc, s.items);
  if (types[0] === "object" && s.additionalProperties && s.additionalProperties.type) {
    return "map of " + typeOf(doc, s.additionalProperties);
  }
  return types.join(" or ") + (s.format ? " (" + s.format + ")" : "");
}

const bounds = [
  ["minimum", "at least "], ["maximum", "at most "],
  ["minLength", "length at least "], ["maxLength", "length at most "],
  ["maxItems", "entries at most "], ["maxProperties", "entries at most "],
  ["pattern", "matches "], ["default", "default "],
];

function limits(doc, schema) {
  const s = resolve(doc, schema);
  const found = bounds.filter(([key]) => s[key] !== undefined && s[key] !== "").map(([key, text]) => text + s[key]);
  if (s.enum) found.push("one of " + s.enum.join(", "));
  return found.join("; ");
}

function table(head, rows) {
  const t = element("table");
  t.append(element("tr", "", ...head.map((h) => element("th", h))));
  for (const row of rows) {
    t.append(element("tr", "", ...row.map((cell, i) => element("td", "", i === 0 ? element("code", cell) : cell || ""))));
  }
  return t;
}

function fields(doc, schema, prefix, mark) {
  const s = resolve(doc, schema);
  if ([].concat(s.type)[0] === "array") return fields(doc, s.items, prefix, mark);
  const required = s.required || [];
  return Object.entries(s.properties || {}).flatMap(([name, field]) => {
    const about = [field.description || resolve(doc, field).description, limits(doc, field)].filter(Boolean).join(" ");
    const row = [prefix + name, typeOf(doc, field) + (required.includes(name) ? mark : ""), about];
    const inner = resolve(doc, field);
    return [row, ...(inner.properties ? fields(doc, field, prefix + name + ".", mark) : [])];
  });
}

function body(doc, content, title) {
  return Object.entries(content || {}).flatMap(([media, c]) => {
    const parts = [element("h4", title + ": " + media)];
    const rows = fields(doc, c.schema, "", title === "Request" ? ", required" : ", always");
    if (rows.length) parts.push(table(["Field", "Type", "Meaning"], rows));
    if (c.example !== undefined) {
      parts.push(element("pre", typeof c.example === "string" ? c.example : JSON.stringify(c.example, null, 2)));
    }
    return parts;
  });
}

function endpoint(doc, path, method, op) {
  const section = element("section");
  section.id = op.operationId;
  section.append(element("h2", op.summary), element("p", "", element("span"), element("code", path)));
  section.querySelector("span").className = "method";
  section.querySelector("span").textContent = method.toUpperCase();
  if (op.description) section.append(element("p", op.description));
  if (op.security && op.security.length === 0) section.append(element("p", "Needs no key."));
  const parameters = (op.parameters || []).map((p) => [
    p.name, p.in + ", " + typeOf(doc, p.schema) + (p.required ? ", required" : ""),
    [p.description, limits(doc, p.schema)].filter(Boolean).join(" "),
  ]);
  if (parameters.length) section.append(element("h4", "Parameters"), table(["Name", "Where and type", "Meaning"], parameters));
  if (op.requestBody) section.append(...body(doc, op.requestBody.content, "Request"));
  const errors = [];
  for (const [status, ref] of Object.entries(op.responses)) {
    const response = resolve(doc, ref);
    if (status < 400) section.append(...body(doc, response.content, "Answer " + status));
    else errors.push([status, response.description]);
  }
  const details = element("details", "", element("summary", "Errors"), table(["Status", "Meaning"], errors));
  section.append(details);
  return section;
}

function draw(doc) {
  document.getElementById("about").textContent = doc.info.description;
  const index = document.getElementById("index");
  const main = document.getElementById("endpoints");
  for (const [path, item] of Object.entries(doc.paths)) {
    for (const [method, op] of Object.entries(item)) {
      const link = element("a", "", element("span", method.toUpperCase()), element("code", path));
      link.querySelector("span").className = "method";
      link.href = "#" + op.operationId;
      index.append(link);
      main.append(endpoint(doc, path, method, op));
    }
  }
  const errors = Object.entries(doc.components.responses).map(([status, r]) => {
    const example = r.content["application/json"].example;
    return [status, example.code, r.description + " For example: " + example.error];
  });
  const section = element("section", "", element("h2", "Errors"), table(["Status", "Code", "Meaning"], errors));
  main.append(section);
}

fetch("../openapi.json")
  .then((r) => (r.ok ? r.json() : Promise.reject(new Error("status " + r.status))))
  .then(draw)
  .catch((e) => { document.getElementById("about").textContent = "Cannot read openapi.json: " + e.message; });
