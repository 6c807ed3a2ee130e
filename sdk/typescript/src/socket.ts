import { toBase64 } from "./bytes.js";
import { ConnectionError, SandkastenError } from "./errors.js";
import { type RequestOptions, type Transport, sleep } from "./transport.js";

/** What is used of a WebSocket: that of browsers, Node 22, Bun and Deno, and that of the package ws. */
export interface WebSocketLike {
  binaryType: string;
  readonly bufferedAmount?: number;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(): void;
  addEventListener(type: "open" | "message" | "error" | "close", listener: (event: any) => void): void;
}
export type WebSocketConstructor = new (url: string, protocols: string[]) => WebSocketLike;

type Message = string | Uint8Array;

/** The most bytes that wait to be sent before `drained` waits for them. */
const maxBuffered = 4 << 20;
/** No WebSocket tells when it has sent something. */
const drainMs = 10;

/** A WebSocket whose messages one reader takes one after another. They wait for it, however many they are. */
export class Socket {
  readonly #socket: WebSocketLike;
  readonly #messages: Message[] = [];
  #ended: { error?: unknown } | undefined;
  #wake: () => void = () => {};

  constructor(socket: WebSocketLike, signal?: AbortSignal) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => {
      this.#messages.push(typeof data === "string" ? data : new Uint8Array(data));
      this.#wake();
    });
    socket.addEventListener("error", () => this.#end({ error: new ConnectionError("the WebSocket broke") }));
    socket.addEventListener("close", ({ code }) => this.#end(code === 1000 ? {} : { error: new ConnectionError(`the WebSocket was closed with code ${code}`) }));
    signal?.addEventListener("abort", () => {
      this.#end({ error: signal.reason });
      socket.close();
    });
  }

  #end(how: { error?: unknown }): void {
    this.#ended ??= how;
    this.#wake();
  }

  /** The next message, or undefined when the other end has closed as it should. */
  async next(): Promise<Message | undefined> {
    for (;;) {
      const message = this.#messages.shift();
      if (message !== undefined) {
        return message;
      }
      if (this.ended()) {
        return undefined;
      }
      await new Promise<void>((wake) => (this.#wake = wake));
    }
  }

  /** Tells whether the connection has ended, and throws why if it did not end as it should. */
  ended(): boolean {
    if (this.#ended !== undefined && "error" in this.#ended) throw this.#ended.error;
    return this.#ended !== undefined;
  }

  /** Waits while much of what was sent has not left yet. */
  async drained(): Promise<void> {
    while (!this.ended() && (this.#socket.bufferedAmount ?? 0) > maxBuffered) await sleep(drainMs);
  }

  /** A WebSocket that has ended takes what it is given, and says nothing. */
  send(data: string | Uint8Array): void {
    if (this.ended()) throw new ConnectionError("the connection has ended");
    this.#socket.send(data as string | Uint8Array<ArrayBuffer>);
  }

  close(): void {
    this.#end({});
    this.#socket.close();
  }
}

/**
 * openSocket connects to a path of the API. An engine does not tell why a WebSocket was refused: then `ask` is called,
 * which throws that if it is more than the connection.
 */
export async function openSocket(transport: Transport, path: string, query: RequestOptions["query"], ask: () => Promise<unknown>, signal?: AbortSignal): Promise<Socket> {
  signal?.throwIfAborted();
  const WebSocket = transport.webSocket;
  if (WebSocket === undefined) {
    throw new SandkastenError('this engine has no WebSocket: pass one to the client, as new SandboxClient({ webSocket }) with import webSocket from "ws"');
  }
  const key = toBase64(new TextEncoder().encode(transport.apiKey)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  // The only header that a page may choose. The daemon takes the first, so that the key is not repeated.
  const raw = new WebSocket(transport.url(path, query).replace(/^http/, "ws"), ["sandkasten", `sandkasten.key.${key}`]);
  const socket = new Socket(raw, signal);
  const opened = await new Promise<boolean>((resolve) => {
    raw.addEventListener("open", () => resolve(true));
    raw.addEventListener("error", () => resolve(false));
    raw.addEventListener("close", () => resolve(false));
    signal?.addEventListener("abort", () => resolve(false));
  });
  if (!opened) {
    signal?.throwIfAborted();
    await ask();
    throw new ConnectionError("the daemon refused the WebSocket, or there is no way to it");
  }
  return socket;
}
