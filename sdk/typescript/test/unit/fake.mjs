// A daemon that answers from a script.
import { SandboxClient } from "../../dist/esm/index.js";

export const session = { id: "f5q2bz7lq4m3k5n6p7r2s3t4u5", status: "running", labels: { my_key: "v" } };

export const json = (status, body, headers = {}) =>
  new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json", ...headers } });

export const error = (status, code, headers) => json(status, { error: "why", code }, headers);

export const lost = () => {
  throw new TypeError("fetch failed", { cause: new Error("ECONNRESET") });
};

const encoder = new TextEncoder();

/** An event stream of the given texts, which breaks behind them unless `whole`. */
export function events(texts, { whole = false } = {}) {
  const left = texts.map((text) => encoder.encode(text));
  const body = new ReadableStream({
    pull(controller) {
      const next = left.shift();
      if (next) controller.enqueue(next);
      else if (whole) controller.close();
      else controller.error(new Error("socket hang up"));
    },
  });
  return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
}

export const start = (id = "e1") => `event: start\nid: ${id}:0\ndata: {"exec_id":"${id}"}\n\n`;
export const chunk = (text, at, id = "e1") => `event: chunk\nid: ${id}:${at}\ndata: ${JSON.stringify({ chunk: text, timestamp: "t" })}\n\n`;
export const done = (id = "e1") => `event: done\nid: ${id}:end\ndata: {"exit_code":0,"cause":"exited","exec_id":"${id}"}\n\n`;

/**
 * A client whose requests get the answers one after another; an answer may be a function of the request.
 * `requests` has what was sent. A request without an answer fails the test.
 */
export function client(answers, options = {}) {
  const requests = [];
  const left = [...answers];
  const fetch = async (url, init = {}) => {
    init.signal?.throwIfAborted();
    const { pathname, search } = new URL(url);
    const body = typeof init.body === "string" && init.body.startsWith("{") ? JSON.parse(init.body) : init.body;
    requests.push({ method: init.method ?? "GET", path: pathname + search, headers: new Headers(init.headers), body });
    const answer = left.shift();
    if (answer === undefined) throw new Error(`a request that nobody expects: ${init.method} ${url}`);
    return typeof answer === "function" ? answer(init) : answer;
  };
  return { client: new SandboxClient({ baseUrl: "http://daemon", apiKey: "key", fetch, ...options }), requests, left };
}

/** A session of such a client, whose creation is no part of requests. */
export async function sandbox(answers, options) {
  const made = client([json(201, session), ...answers], options);
  const created = await made.client.createSession();
  made.requests.length = 0;
  return { ...made, session: created };
}
