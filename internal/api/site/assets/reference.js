// Draws openapi.json: the operations in their groups, each when it is opened.
"use strict";

(() => {
  const place = document.getElementById("reference");
  const deepest = 6; // fields in fields; some hold themselves

  let doc;
  let calls; // of the command line and the SDKs: calls.json, which their tests try

  function resolve(value) {
    while (value?.$ref) value = value.$ref.replace("#/", "").split("/").reduce((at, key) => at[key], doc);
    return value ?? {};
  }

  function typeOf(schema) {
    const s = resolve(schema);
    const types = [s.type ?? "any"].flat().filter((type) => type !== "null");
    if (types[0] === "array") return `list of ${typeOf(s.items)}`;
    if (types[0] === "object" && s.additionalProperties?.type) return `map of ${typeOf(s.additionalProperties)}`;
    return types.join(" or ") + (s.format ? ` (${s.format})` : "");
  }

  const bounds = [
    ["minimum", "at least "], ["maximum", "at most "],
    ["minLength", "length at least "], ["maxLength", "length at most "],
    ["minItems", "entries at least "], ["maxItems", "entries at most "], ["maxProperties", "entries at most "],
    ["pattern", "matches "], ["default", "default "],
  ];

  function limits(schema) {
    const s = resolve(schema);
    const found = bounds.filter(([key]) => s[key] !== undefined && s[key] !== "").map(([key, text]) => text + s[key]);
    if (s.enum) found.push(`one of ${s.enum.join(", ")}`);
    return found.length > 0 ? `(${found.join("; ")})` : "";
  }

  function table(head, rows) {
    const row = (cells) => build("tr", {}, ...cells.map((cell, i) => build("td", {}, i === 0 ? build("code", {}, cell) : cell ?? "")));
    const titles = build("tr", {}, ...head.map((title) => build("th", {}, title)));
    return build("div", { class: "wide" }, build("table", {}, build("thead", {}, titles), build("tbody", {}, ...rows.map(row))));
  }

  function fields(schema, prefix, mark, depth = 0) {
    const s = resolve(schema);
    if ([s.type].flat()[0] === "array") return fields(s.items, `${prefix}[].`, mark, depth);
    if (depth > deepest) return [];
    const start = prefix && !prefix.endsWith(".") ? `${prefix}.` : prefix;
    return Object.entries(s.properties ?? {}).flatMap(([name, field]) => {
      const inner = resolve(field);
      const about = [field.description ?? inner.description, limits(field)].filter(Boolean).join(" ");
      const row = [start + name, typeOf(field) + (s.required?.includes(name) ? mark : ""), about];
      const below = [inner.type].flat()[0] === "array" ? fields(inner.items, `${start}${name}[].`, mark, depth + 1) : fields(inner, `${start}${name}.`, mark, depth + 1);
      return [row, ...below];
    });
  }

  /** exampleOf is a value that fits, if the document shows one. */
  function exampleOf(content) {
    if (content?.example !== undefined) return content.example;
    const s = resolve(content?.schema);
    if (s.examples) return s.examples[0];
    const item = [s.type].flat()[0] === "array" && resolve(s.items).examples?.[0];
    return item ? [item] : undefined;
  }

  const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

  function code(text) {
    const pre = build("pre", {}, build("code", {}, text));
    const frame = build("div", {}, pre);
    addCopy(pre);
    return frame;
  }

  function body(content, title, mark) {
    return Object.entries(content ?? {}).flatMap(([media, one]) => {
      const rows = fields(one.schema, "", mark);
      const example = exampleOf(one);
      return [
        build("h4", {}, `${title}: ${media}`),
        ...(rows.length > 0 ? [table(["Field", "Type", "Meaning"], rows)] : []),
        ...(example === undefined ? [] : [code(asText(example))]),
      ];
    });
  }

  const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

  /** curl is the operation for a terminal. Optional parameters are left out. */
  function curl(path, method, op) {
    const base = place.dataset.daemon === undefined ? "$SANDKASTEN_URL" : location.origin;
    const needed = (op.parameters ?? []).filter((p) => p.in === "query" && p.required);
    const query = needed.map((p) => `${p.name}=${encodeURIComponent(resolve(p.schema).examples?.[0] ?? p.name.toUpperCase())}`).join("&");
    const target = base + path.replace(/\{(\w+)\}/g, (_, name) => `$${name.toUpperCase()}`) + (query && `?${query}`);
    const lines = [`curl -X ${method.toUpperCase()} "${target}"`];
    if (op.security?.length !== 0) lines.push(`-H "Authorization: Bearer $SANDKASTEN_API_KEY"`);
    const [media, content] = Object.entries(op.requestBody?.content ?? {})[0] ?? [];
    if (media === "application/json") lines.push(`-H "Content-Type: application/json"`, `-d ${quote(JSON.stringify(minimal(content)))}`);
    else if (media === "multipart/form-data") lines.push("-F file=@FILE");
    else if (media) lines.push(`-H "Content-Type: ${media}"`, "--data-binary @FILE");
    return lines.join(" \\\n  ");
  }

  /** callIn is the operation in a language, below what it needs; undefined if the language has no call for it. */
  function callIn(language, id) {
    const call = calls.operations[id]?.[language];
    if (!call) return undefined;
    const before = calls.before[language] ?? {};
    const needed = new Set();
    const need = (text) => {
      const code = text.replace(/"[^"]*"/g, "");
      for (const name of Object.keys(before)) {
        if (needed.has(name) || !new RegExp(`\\b${name}\\b`).test(code)) continue;
        needed.add(name);
        need(before[name]);
      }
    };
    need(call);
    return [...Object.keys(before).filter((name) => needed.has(name)).map((name) => before[name]), call].join("\n");
  }

  /** inLanguages shows the operation as tabs, which each page has in the same order. */
  function inLanguages(path, method, op) {
    const section = (language, name, text) =>
      build("section", { "data-language": language }, build("h4", {}, name), text === undefined ? build("p", { class: "note" }, "Not in this client; use curl.") : code(text));
    const named = Object.entries({ cli: "Command line", python: "Python", typescript: "TypeScript", go: "Go" });
    const group = build("div", { class: "languages" }, section("curl", "curl", curl(path, method, op)), ...named.map(([language, name]) => section(language, name, callIn(language, op.operationId))));
    makeTabs(group);
    return group;
  }

  /** choices are fields of which a body needs one or the like of it, so that no schema requires them: the bytes for text. */
  const choices = ["text", "data", "api_key"];

  /** minimal is the example of a body, with what it cannot do without. */
  function minimal(content) {
    const example = exampleOf(content) ?? {};
    const needed = [...(resolve(content.schema).required ?? []), ...choices];
    return Object.fromEntries(Object.entries(example).filter(([name]) => needed.includes(name)));
  }

  function errorsOf(op) {
    const rows = Object.entries(op.responses)
      .filter(([status]) => status >= 400)
      .map(([status, ref]) => {
        const response = resolve(ref);
        const example = response.content?.["application/json"]?.example;
        return [status, example?.code ?? "", response.description + (example ? ` For example: ${example.error}.` : "")];
      });
    return rows.length === 0 ? [] : [build("details", {}, build("summary", {}, "Errors"), table(["Status", "Code", "Meaning"], rows))];
  }

  function contents(path, method, op) {
    const parts = [];
    if (op.description) parts.push(build("p", {}, op.description));
    if (op.security?.length === 0) parts.push(build("p", {}, "Needs no key."));
    const parameters = (op.parameters ?? []).map((p) => [
      p.name, `${p.in}, ${typeOf(p.schema)}${p.required ? ", required" : ""}`, [p.description, limits(p.schema)].filter(Boolean).join(" "),
    ]);
    if (parameters.length > 0) parts.push(build("h4", {}, "Parameters"), table(["Name", "Where and type", "Meaning"], parameters));
    if (op.requestBody) parts.push(...body(op.requestBody.content, "Request", ", required"));
    for (const [status, ref] of Object.entries(op.responses)) {
      if (status < 400) parts.push(...body(resolve(ref).content, `Answer ${status}`, ", always"));
    }
    parts.push(...errorsOf(op), build("h4", {}, "Call it"), inLanguages(path, method, op));
    if (place.dataset.daemon !== undefined) parts.push(tryOut(place.dataset, { path, method, op, resolve, minimal }));
    parts.push(build("p", {}, build("a", { href: `#${op.operationId}` }, "Link to this operation")));
    return parts;
  }

  function operation(path, method, op) {
    const title = build("h3", {}, build("span", { class: "method", "data-method": method }, method.toUpperCase()), build("code", {}, path));
    const made = build("details", { class: "operation", id: op.operationId }, build("summary", {}, title, build("span", { class: "about" }, op.summary)));
    made.addEventListener("toggle", () => {
      if (!made.open || made.children.length > 1) return;
      made.append(build("div", {}, ...contents(path, method, op)));
      markScrollers();
    });
    made.dataset.words = `${method} ${path} ${op.operationId} ${op.summary}`.toLowerCase();
    return made;
  }

  const anchorOf = (tag) => `group-${tag.toLowerCase().replaceAll(" ", "-")}`;

  function filter(groups) {
    const input = build("input", { type: "search", placeholder: "Filter operations: a path or words", "aria-label": "Filter operations" });
    const none = build("p", { class: "note", hidden: "" }, "No operation has all of these words.");
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const group of groups) {
        const operations = [...group.querySelectorAll(".operation")];
        for (const one of operations) one.hidden = !words.every((word) => one.dataset.words.includes(word));
        group.hidden = operations.every((one) => one.hidden);
      }
      none.hidden = groups.some((group) => !group.hidden);
    });
    return [input, none];
  }

  /** openAddressed opens what the address names. */
  function openAddressed() {
    const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!named) return;
    if (named.matches(".operation")) named.open = true;
    named.scrollIntoView();
  }

  const methods = ["get", "post", "put", "patch", "delete"];
  const depth = ({ path }) => path.split("/").length;

  /** inOrder begins with short paths, which are of the things themselves. */
  function inOrder(a, b) {
    return depth(a) - depth(b) || a.path.localeCompare(b.path) || methods.indexOf(a.method) - methods.indexOf(b.method);
  }

  function draw() {
    const all = Object.entries(doc.paths).flatMap(([path, item]) => Object.entries(item).map(([method, op]) => ({ path, method, op })));
    all.sort(inOrder);
    const groups = doc.tags.map(({ name, description }) => {
      const title = build("h2", { id: anchorOf(name) }, name, " ", build("a", { class: "anchor", href: `#${anchorOf(name)}`, "aria-label": "Link to this section" }, "#"));
      const operations = all.filter(({ op }) => op.tags?.includes(name)).map(({ path, method, op }) => operation(path, method, op));
      return build("section", {}, title, build("p", {}, description ?? ""), ...operations);
    });
    const list = () => build("ul", {}, ...doc.tags.map(({ name }) => build("li", {}, build("a", { href: `#${anchorOf(name)}` }, name))));
    document.querySelector("nav.contents ul").replaceWith(list());
    place.replaceChildren(build("p", {}, doc.info.description), ...filter(groups), ...groups);
    openAddressed();
    addEventListener("hashchange", openAddressed);
  }

  const read = (address) => fetch(address).then((response) => (response.ok ? response.json() : Promise.reject(new Error(`status ${response.status} of ${address}`))));

  Promise.all([read(place.dataset.document), read(new URL("calls.json", document.currentScript.src))])
    .then((both) => {
      [doc, calls] = both;
      draw();
    })
    .catch((error) => place.replaceChildren(build("p", { class: "error", role: "alert" }, `Cannot read the list of operations: ${error.message}. Load the page again.`)));
})();
