import { APIError, ConnectionError, NotFoundError, SandkastenError, apiError } from "./errors.js";
import { fromWire, toWire } from "./names.js";
import type { WebSocketConstructor } from "./socket.js";

/** How a client reaches its daemon. */
export interface TransportOptions {
  baseUrl: string;
  apiKey: string;
  maxRetries: number;
  retryMs: number;
  fetch: typeof fetch;
  webSocket: WebSocketConstructor | undefined;
}

export interface RequestOptions {
  /** A list is a parameter that is there several times. */
  query?: Record<string, string | number | boolean | string[] | undefined> | undefined;
  /** Sent as JSON, with the API's names. */
  json?: unknown;
  /** Sent as it is. */
  body?: BodyInit | undefined;
  headers?: Record<string, string | undefined> | undefined;
  signal?: AbortSignal | undefined;
  /** Makes a request repeatable: the same again has the same effect as once. */
  idempotencyKey?: string | undefined;
  /** Whether it may be sent again when it is not known whether it was carried out. GET and DELETE may. */
  repeatable?: boolean | undefined;
}

/** The pause before the first repetition; it doubles with each. */
const firstPauseMs = 100;
/** The longest that a call waits because the daemon says so. */
const maxPauseMs = 20_000;
/** The longest pause between tries while the daemon may be restarting, so that its end is noticed soon. */
const restartPauseMs = 2_000;
/** How long an address is tried at which nothing has answered yet: it may be a wrong one. */
const firstContactMs = 3_000;

/** Transport sends requests with the key, repeats those that may be repeated, and throws errors of this package. */
export class Transport {
  readonly #options: TransportOptions;
  /** Something has answered at the address. */
  #met = false;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  /** patience decides how long one request, or one stream, is tried. */
  patience(): Patience {
    return new Patience(this.#options, () => this.#met);
  }

  get apiKey(): string {
    return this.#options.apiKey;
  }

  get webSocket(): WebSocketConstructor | undefined {
    return this.#options.webSocket;
  }

  /** url gives the address of a path of the API. */
  url(path: string, query: RequestOptions["query"] = {}): string {
    const params = new URLSearchParams();
    for (const [name, value] of Object.entries(toWire(query) as typeof query)) {
      for (const each of Array.isArray(value) ? value : [value]) params.append(name, String(each));
    }
    const search = params.toString();
    return this.#options.baseUrl + path + (search === "" ? "" : "?" + search);
  }

  /** json gives the body of a successful answer, with the names of TypeScript. */
  async json<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const once = async () => {
      const response = await this.#send(method, path, options);
      const text = await response.text();
      if (response.headers.get("content-type")?.startsWith("application/json") !== true) {
        throw new SandkastenError(`${response.url} is no Sandkasten daemon: it answered with ${response.headers.get("content-type")}`);
      }
      return fromWire(JSON.parse(text)) as T;
    };
    return this.#repeat(method, options, once, method === "DELETE" ? ({ ok: true } as T) : undefined);
  }

  /** response gives a successful answer whose body the caller reads. */
  async response(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    return this.#repeat(method, options, () => this.#send(method, path, options));
  }

  /** bytes gives the whole body of a successful answer. */
  async bytes(path: string, options: RequestOptions = {}): Promise<Uint8Array> {
    return this.#repeat("GET", options, async () => {
      const response = await this.#send("GET", path, options);
      return new Uint8Array(await response.arrayBuffer());
    });
  }

  /**
   * raw sends a request with the key to any address below the daemon's and gives whatever answer comes. A redirect is an
   * answer, too: a server in a sandbox would else choose who gets the key.
   */
  async raw(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    headers.set("X-API-Key", this.#options.apiKey);
    const redirect = init.redirect === "error" ? "error" : "manual";
    try {
      return await this.#options.fetch(this.url(path), { ...init, headers, redirect });
    } catch (error) {
      throw lost(error, init.signal ?? undefined);
    }
  }

  async #send(method: string, path: string, options: RequestOptions): Promise<Response> {
    const headers = new Headers({ Authorization: `Bearer ${this.#options.apiKey}` });
    for (const [name, value] of Object.entries(options.headers ?? {})) {
      if (value !== undefined) headers.set(name, value);
    }
    if (options.idempotencyKey !== undefined) {
      headers.set("Idempotency-Key", options.idempotencyKey);
    }
    const init: RequestInit = { method, headers, redirect: "manual" }; // the API never redirects, and the key is for the daemon alone
    if (options.signal) init.signal = options.signal;
    if (options.json !== undefined) {
      headers.set("Content-Type", "application/json");
      init.body = JSON.stringify(toWire(options.json));
    } else if (options.body !== undefined) {
      init.body = options.body;
    }
    const response = await this.#options.fetch(this.url(path, options.query), init);
    this.#met = true;
    if (!response.ok) {
      const text = await response.text();
      if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
        throw new SandkastenError(`${this.#options.baseUrl} redirects, which is not followed: give the address of the daemon itself`);
      }
      throw apiError(parse(text), response.status, response.headers.get("retry-after"));
    }
    return response;
  }

  /** #repeat calls once until it succeeds, may not be repeated or has been tried for long enough. `gone` is the answer of a deletion that finds nothing because an earlier try was carried out. */
  async #repeat<T>(method: string, options: RequestOptions, once: () => Promise<T>, gone?: T): Promise<T> {
    const repeatable = options.repeatable ?? (method === "GET" || method === "DELETE" || options.idempotencyKey !== undefined);
    const patience = this.patience();
    for (;;) {
      options.signal?.throwIfAborted();
      try {
        return await once();
      } catch (error) {
        const known = error instanceof SandkastenError ? error : lost(error, options.signal);
        if (gone !== undefined && patience.doubtful && known instanceof NotFoundError) {
          return gone;
        }
        const pause = patience.next(known, repeatable);
        if (pause === undefined) {
          throw known;
        }
        await sleep(pause, options.signal);
      }
    }
  }
}

/**
 * Patience decides how long one request, or one stream, is tried. Where the daemon may be restarting that is a time from the
 * first failure on, and at least maxRetries times; where it says that there is too much, maxRetries times.
 */
export class Patience {
  /** A try may have been carried out. */
  doubtful = false;
  #tries = 0;
  #since: number | undefined;

  constructor(
    readonly options: Pick<TransportOptions, "maxRetries" | "retryMs">,
    readonly met: () => boolean,
  ) {}

  /** progress begins anew: what came since was of use. */
  progress(): void {
    this.#tries = 0;
    this.#since = undefined;
  }

  /** next says how long to wait before another try, or that there is none. */
  next(error: unknown, repeatable: boolean): number | undefined {
    const refused = error instanceof ConnectionError && neverSent(error);
    const busy = error instanceof APIError && error.status === 429; // nothing was done; 503 may come after something was
    if (busy && error.reason === "quota_exceeded") {
      return undefined; // time alone changes nothing
    }
    const absent = error instanceof ConnectionError || (error instanceof APIError && error.status === 503);
    if (!busy && !(absent && (repeatable || refused))) {
      return undefined;
    }
    this.doubtful ||= !busy && !refused;
    this.#since ??= Date.now();
    const growing = growingPause(this.#tries);
    const asked = error instanceof APIError ? (error.retryAfter ?? 0) * 1000 : 0;
    if (this.#tries++ < this.options.maxRetries) {
      return asked > maxPauseMs ? undefined : Math.max(asked, growing);
    }
    if (busy || this.options.maxRetries === 0) {
      return undefined;
    }
    const { retryMs } = this.options;
    const wrongAddress = error instanceof ConnectionError && !this.met();
    const left = this.#since + (wrongAddress ? Math.min(retryMs, firstContactMs) : retryMs) - Date.now();
    return left > 0 ? Math.min(Math.max(asked, growing), restartPauseMs, left) : undefined;
  }

  /** resume waits before a stream is taken up that broke: not at all the first time since it made progress. It throws what must not be taken up. */
  async resume(broken: unknown, signal?: AbortSignal): Promise<void> {
    if (!(broken instanceof ConnectionError)) {
      throw broken;
    }
    if (this.#since === undefined && this.options.maxRetries > 0) {
      this.#since = Date.now();
      return;
    }
    const pause = this.next(broken, true);
    if (pause === undefined) {
      throw broken;
    }
    await sleep(pause, signal);
  }
}

/** neverSent tells whether the daemon cannot have seen the request. Browsers do not say why. */
function neverSent(error: ConnectionError): boolean {
  let cause: unknown = error.cause;
  for (let depth = 0; cause instanceof Error && depth < 5; depth++) {
    if (["ECONNREFUSED", "ENOTFOUND", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"].includes((cause as { code?: string }).code ?? "")) {
      return true;
    }
    cause = cause.cause;
  }
  return false;
}

/** growingPause is the pause before repetition `attempt`, in milliseconds, spread so that many clients do not come at once. */
export function growingPause(attempt: number): number {
  return firstPauseMs * 2 ** Math.min(attempt, 16) * (0.5 + Math.random() / 2);
}

/** lost makes a ConnectionError of what fetch or a body threw, or gives the reason of an aborted signal. */
export function lost(error: unknown, signal?: AbortSignal): unknown {
  if (signal?.aborted) {
    return signal.reason;
  }
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const why = cause instanceof Error ? cause.message || cause.name : String(cause);
  return new ConnectionError(`no answer from the daemon: ${why}`, { cause: error });
}

/** newKey makes an Idempotency-Key. Node 18 and pages without TLS have no randomUUID; a key need not be secret. */
export function newKey(): string {
  return globalThis.crypto?.randomUUID?.() ?? Array.from({ length: 3 }, () => Math.random().toString(36).slice(2)).join("");
}

export function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** sleep ends early when the signal is aborted, by throwing its reason. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
