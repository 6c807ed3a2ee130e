import { openSocket } from "./socket.js";
import type { Transport } from "./transport.js";

/** A TCP connection to a port of a session. */
export interface Tunnel {
  /** What comes; it ends where the other side has no more to say. To cancel it closes the connection. */
  readable: ReadableStream<Uint8Array>;
  /** What goes. To close it tells the other side that no more comes; to abort it closes the connection. */
  writable: WritableStream<Uint8Array>;
}

/** The most bytes in one message; the daemon takes 1 MiB. */
const pieceBytes = 512 << 10;

/** openTunnel connects to a port. */
export async function openTunnel(transport: Transport, sessionPath: string, port: number, signal?: AbortSignal): Promise<Tunnel> {
  const ask = () => transport.json("GET", sessionPath, { signal });
  const socket = await openSocket(transport, `${sessionPath}/tunnel`, { port }, ask, signal);
  let ended = false;
  return {
    readable: new ReadableStream({
      async pull(controller) {
        const message = ended ? undefined : await socket.next();
        if (message instanceof Uint8Array && message.length > 0) {
          controller.enqueue(message);
        } else {
          ended = true;
          controller.close();
        }
      },
      cancel: () => socket.close(),
    }),
    writable: new WritableStream({
      async write(bytes) {
        for (let at = 0; at < bytes.length; at += pieceBytes) {
          await socket.drained();
          socket.send(bytes.subarray(at, at + pieceBytes));
        }
      },
      close() {
        if (!socket.ended()) socket.send(new Uint8Array());
      },
      abort: () => socket.close(),
    }),
  };
}
