import { SandkastenError, apiError } from "./errors.js";
import { type Socket, openSocket } from "./socket.js";
import { type Transport, parse } from "./transport.js";
import type * as types from "./types.js";

/** What the daemon says beside the output. */
interface Told {
  started?: { terminal_id: string; seq: number };
  dropped?: { bytes: number };
  exit?: { exit_code: number };
  code?: string;
}

/**
 * A terminal to which we are attached. Iterate over it for what it shows, once; the iteration ends with its program. When
 * the connection breaks the program goes on for some time, and `attachTerminal` comes back to it.
 */
export class Terminal {
  /** What to attach to it with. It is a process's, too. */
  readonly id: string;
  /** Where to go on when the connection has broken: the number of bytes that were shown before. */
  seq: number;
  /** The program's, when it has ended. */
  exitCode: number | undefined;
  readonly #socket: Socket;

  private constructor(socket: Socket, id: string, seq: number) {
    this.#socket = socket;
    this.id = id;
    this.seq = seq;
  }

  /** @internal */
  static async open(transport: Transport, sessionPath: string, options: types.TerminalOptions & types.AttachTerminalOptions, terminalId?: string): Promise<Terminal> {
    const { signal, ...query } = options;
    const asked = terminalId === undefined ? sessionPath : `${sessionPath}/execs/${encodeURIComponent(terminalId)}`;
    const ask = () => transport.json("GET", asked, { signal });
    const socket = await openSocket(transport, `${sessionPath}/terminal`, { ...query, terminalId }, ask, signal);
    const first = await socket.next();
    const started = typeof first === "string" ? (parse(first) as Told).started : undefined;
    if (started === undefined) {
      socket.close();
      throw new SandkastenError("the daemon does not say which terminal this is");
    }
    return new Terminal(socket, started.terminal_id, started.seq);
  }

  /** Types. It throws a ConnectionError where the connection has ended. */
  write(data: string | Uint8Array): void {
    this.#socket.send(typeof data === "string" ? new TextEncoder().encode(data) : data);
  }

  resize(rows: number, cols: number): void {
    this.#socket.send(JSON.stringify({ resize: { rows, cols } }));
  }

  /** Detaches. The program goes on; `processes.get(id).kill()` ends it. */
  close(): void {
    this.#socket.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    for (let message = await this.#socket.next(); message !== undefined; message = await this.#socket.next()) {
      if (typeof message === "string") {
        this.#told(parse(message) as Told);
      } else {
        this.seq += message.length;
        yield message;
      }
    }
  }

  #told(told: Told): void {
    if (told.dropped !== undefined) this.seq += told.dropped.bytes;
    if (told.exit !== undefined) this.exitCode = told.exit.exit_code;
    if (told.code !== undefined) throw apiError(told);
  }
}
