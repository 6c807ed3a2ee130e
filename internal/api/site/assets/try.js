// Sends requests of the reference to the daemon, in the name of who has signed in with
// this browser: by the cookie, which no script can read, with its token beside it. It
// asks for no key.
"use strict";

/** signIn is what the daemon says of the sign-in. */
const signIn = Object.assign(new EventTarget(), { state: undefined, token: undefined, asked: undefined });

function askSignIn(daemon) {
  signIn.asked ??= fetch(`${daemon}/v1/auth/session`, { credentials: "same-origin" })
    .then((response) => (response.ok ? response.json() : Promise.reject(new Error(`status ${response.status}`))))
    .then(
      (state) => Object.assign(signIn, { state, token: state.csrf_token }),
      (error) => Object.assign(signIn, { state: { signed_in: false, ways: [], error }, token: undefined }),
    )
    .finally(() => {
      signIn.asked = undefined;
      signIn.dispatchEvent(new Event("change"));
    });
  return signIn.asked;
}

/** plain shows what would change how a line reads as a mark: it is web/src/ui/text.tsx's. */
const marked = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const plain = (text) => text.split("\n").map((line) => line.replace(marked, (c) => (c === "\t" ? "\u2409" : `\u27e8${c.codePointAt(0).toString(16).padStart(4, "0")}\u27e9`))).join("\n");

const mostShown = 256 << 10; // bytes of an answer

/** whyNot is why an operation cannot be tried from a page, or "". */
function whyNot(path, op) {
  const media = Object.keys(op.requestBody?.content ?? {})[0];
  if (op.responses["101"]) return "It opens a WebSocket: use an SDK or the command line.";
  if (path.startsWith("/v1/auth/")) return "The console does this for you.";
  if (media === "multipart/form-data") return "It takes a form with files: use curl.";
  return "";
}

function tryOut(served, { path, method, op, resolve, minimal }) {
  const place = build("div", { class: "try" });
  const why = whyNot(path, op);
  const title = build("h4", {}, "Try it");
  if (why) {
    place.append(title, build("p", { class: "note" }, why));
    return place;
  }
  const form = requestForm(served, { path, method, op, resolve, minimal });
  let drawn;
  const draw = () => {
    const state = signIn.state;
    const shown = JSON.stringify([state?.signed_in, state?.me?.owner, state?.error?.message]);
    if (shown === drawn) return; // what is entered keeps the focus
    drawn = shown;
    if (state?.signed_in) {
      const who = state.me?.owner ? ` as ${plain(state.me.owner)}` : "";
      place.replaceChildren(title, build("p", { class: "note" }, `Sends a real request to this daemon${who}.`), form);
    } else place.replaceChildren(title, build("p", { class: "note" }, ...invitation(served, state)));
  };
  signIn.addEventListener("change", draw);
  draw();
  if (!signIn.state) askSignIn(served.daemon);
  return place;
}

function invitation(served, state) {
  if (!state) return ["Looking whether you are signed in."];
  if (state.error) return [`The daemon does not answer: ${state.error.message}.`];
  if (served.console) return ["Sign in in the ", build("a", { href: served.console, target: "_blank", rel: "noopener" }, "console"), " and come back: then you can send this request from here."];
  if (state.ways?.includes("oidc")) return [build("a", { href: `${served.daemon}/v1/auth/oidc/start` }, "Sign in with your provider"), " to send this request from here."];
  return ["This daemon has no page on which to sign in. Use curl."];
}

/** entered is what was entered for a name before, so that an id is entered once. */
const entered = new Map();

function parameterField(parameter, resolve) {
  const schema = resolve(parameter.schema);
  const types = [schema.type].flat();
  const options = schema.enum ?? (types.includes("boolean") ? ["true", "false"] : undefined);
  const input = options
    ? build("select", {}, build("option", { value: "" }, "not sent"), ...options.map((option) => build("option", {}, String(option))))
    : build("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: String(schema.examples?.[0] ?? "") });
  input.required = parameter.required === true;
  if (parameter.in === "path") input.value = entered.get(parameter.name) ?? "";
  input.addEventListener("change", () => parameter.in === "path" && entered.set(parameter.name, input.value));
  const label = build("label", {}, build("span", {}, `${parameter.name} (${parameter.in}${parameter.required ? ", required" : ""})`), input);
  return { parameter, input, label };
}

function requestForm(served, { path, method, op, resolve, minimal }) {
  const fields = (op.parameters ?? []).map((parameter) => parameterField(parameter, resolve));
  const [media, content] = Object.entries(op.requestBody?.content ?? {})[0] ?? [];
  const isJSON = media === "application/json";
  const body = !media ? undefined : isJSON ? build("textarea", { rows: "6", spellcheck: "false" }) : build("input", { type: "file" });
  if (isJSON) body.value = JSON.stringify(minimal(content), null, 2);
  const send = build("button", { type: "submit", class: "main" }, `Send ${method.toUpperCase()}`);
  const stop = build("button", { type: "button", hidden: "" }, "Stop");
  const answer = build("div", { class: "answer", "aria-live": "polite" });
  const labelled = body ? [build("label", {}, build("span", {}, `Body (${media})`), body)] : [];
  const form = build("form", {}, ...fields.map(({ label }) => label), ...labelled, build("div", {}, send, " ", stop), answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const control = new AbortController();
    stop.addEventListener("click", () => control.abort(), { signal: control.signal });
    send.disabled = true;
    stop.hidden = false;
    try {
      const request = requestOf(served.daemon, path, method, fields);
      if (body) request.init.body = isJSON ? body.value : body.files[0];
      if (isJSON && body.value.trim() === "") request.init.body = undefined;
      if (request.init.body !== undefined) request.init.headers.set("Content-Type", media);
      await sendRequest(served.daemon, request, control, answer);
    } catch (error) {
      if (!control.signal.aborted) answer.replaceChildren(build("p", { class: "error", role: "alert" }, `The request failed: ${plain(error.message)}`));
    } finally {
      send.disabled = false;
      stop.hidden = true;
    }
  });
  return form;
}

function requestOf(daemon, path, method, fields) {
  const query = new URLSearchParams();
  const headers = new Headers();
  for (const { parameter, input } of fields) {
    const value = input.value;
    if (value === "") continue;
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, () => encodeURIComponent(value));
    if (parameter.in === "query") query.set(parameter.name, value);
    if (parameter.in === "header") headers.set(parameter.name, value);
  }
  return { target: `${daemon}${path}${query.size > 0 ? `?${query}` : ""}`, init: { method: method.toUpperCase(), headers, credentials: "same-origin" } };
}

async function sendRequest(daemon, { target, init }, control, answer) {
  await askSignIn(daemon);
  if (!signIn.state.signed_in) return;
  init.headers.set("X-CSRF-Token", signIn.token);
  const begun = performance.now();
  const response = await fetch(target, { ...init, signal: control.signal, redirect: "error" });
  const took = Math.round(performance.now() - begun);
  const kind = response.headers.get("Content-Type") ?? "no body";
  const status = build("p", { class: response.ok ? "" : "error" }, build("strong", {}, `${response.status} ${response.statusText}`), ` in ${took} ms, ${plain(kind)}, request ${plain(response.headers.get("X-Request-Id") ?? "without an id")}`);
  const pre = build("pre", {}, build("code", {}));
  answer.replaceChildren(status, pre);
  const isText = /^(text\/|application\/json)/.test(kind);
  const whole = await readText(response, control, (text) => (pre.firstChild.textContent = isText ? plain(text) : ""));
  pre.firstChild.textContent = isText ? plain(kind.startsWith("application/json") ? pretty(whole.text) : whole.text) : `${whole.bytes} bytes, which are no text`;
  if (whole.cut) answer.append(build("p", { class: "note" }, `Only the first ${mostShown} bytes are read here.`));
  addCopy(pre);
  markScrollers();
  if (response.status === 401) askSignIn(daemon);
}

/** readText reads an answer as it comes, up to mostShown bytes or until it is stopped. */
async function readText(response, control, show) {
  const decoder = new TextDecoder();
  const read = { text: "", bytes: 0, cut: false };
  const reader = response.body?.getReader();
  try {
    for (let part = await reader?.read(); part && !part.done; part = await reader.read()) {
      read.bytes += part.value.length;
      read.text += decoder.decode(part.value, { stream: true });
      show(read.text);
      if (read.bytes < mostShown) continue;
      read.cut = true;
      control.abort();
      break;
    }
  } catch (error) {
    if (!control.signal.aborted) throw error;
  }
  return read;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// A sign-in or a sign-out in another tab, which the console tells.
new BroadcastChannel("sandkasten").onmessage = () => signIn.state && askSignIn(document.getElementById("reference").dataset.daemon);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && signIn.state && askSignIn(document.getElementById("reference").dataset.daemon));
