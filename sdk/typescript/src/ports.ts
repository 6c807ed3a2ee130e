import type { Transport } from "./transport.js";
import { type Tunnel, openTunnel } from "./tunnel.js";
import type * as types from "./types.js";

/** The TCP ports on which programs in a session listen. */
export class Ports {
  readonly #transport: Transport;
  readonly #sessionPath: string;

  /** @internal */
  constructor(transport: Transport, sessionPath: string) {
    this.#transport = transport;
    this.#sessionPath = sessionPath;
  }

  async list(options: types.CallOptions = {}): Promise<types.Port[]> {
    return this.#transport.json("GET", `${this.#sessionPath}/ports`, options);
  }

  /**
   * Sends a request to a server in the session, through the daemon, and gives its answer as it is. 502 and 504 are the
   * daemon's, where nothing listens or answers. A redirect is an answer and never followed, whatever `init` says; a browser
   * does not show where it leads.
   */
  async fetch(port: number, path: string, init?: RequestInit): Promise<Response> {
    return this.#transport.raw(`${this.#sessionPath}/ports/${port}${path.startsWith("/") ? path : `/${path}`}`, init);
  }

  /** Connects to a port, for any protocol. `signal` ends the connection. */
  async connect(port: number, options: types.CallOptions = {}): Promise<Tunnel> {
    return openTunnel(this.#transport, this.#sessionPath, port, options.signal);
  }

  /** A link that opens this port, and nothing else, to whoever has it. */
  async preview(port: number, options: types.CallOptions & { ttlSeconds?: number | undefined } = {}): Promise<types.Preview> {
    const { signal, ttlSeconds } = options;
    return this.#transport.json("POST", `${this.#sessionPath}/previews`, { json: { port, ttlSeconds }, signal });
  }
}
