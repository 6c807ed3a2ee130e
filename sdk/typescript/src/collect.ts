import { toBase64 } from "./bytes.js";
import type { ExecEvent, ProcessResult, RunOptions } from "./types.js";

/** What is kept of one stream at its beginning, and as much at its end, as the daemon does. */
const halfBytes = 512 << 10;

/** Kept is what one stream wrote, without its middle where that is too long. */
class Kept {
  dropped = 0;
  #head: Uint8Array[] = [];
  #headBytes = 0;
  #tail: Uint8Array[] = [];
  #tailBytes = 0;

  add(bytes: Uint8Array): void {
    const first = bytes.subarray(0, halfBytes - this.#headBytes);
    this.#head.push(first);
    this.#headBytes += first.length;
    this.#tail.push(bytes.subarray(first.length));
    this.#tailBytes += bytes.length - first.length;
    for (let over = this.#tailBytes - halfBytes; over > 0; over = this.#tailBytes - halfBytes) {
      const oldest = this.#tail[0]!;
      const gone = Math.min(over, oldest.length);
      if (gone === oldest.length) this.#tail.shift();
      else this.#tail[0] = oldest.subarray(gone);
      this.#tailBytes -= gone;
      this.dropped += gone;
    }
  }

  /** fields are the output as an answer has it: as text, and as bytes where it is none. */
  fields(): { text: string; base64?: string } {
    const gap = this.dropped > 0 ? [new TextEncoder().encode(`\n[... ${this.dropped} bytes of output are left out here ...]\n`)] : [];
    const bytes = join([...this.#head, ...gap, ...this.#tail]);
    try {
      return { text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes) };
    } catch {
      return { text: new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes), base64: toBase64(bytes) };
    }
  }
}

function join(pieces: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

/** collect makes one result of a process's events, and hands out its output meanwhile. */
export async function collect(events: AsyncGenerator<ExecEvent, void, undefined>, to: Pick<RunOptions, "onStdout" | "onStderr">): Promise<ProcessResult> {
  const kept = { output: new Kept(), stdout: new Kept(), stderr: new Kept() };
  for await (const event of events) {
    if (event.type === "chunk") {
      kept[event.stream ?? "output"].add(event.bytes);
      await (event.stream === "stderr" ? to.onStderr : to.onStdout)?.(event.text);
    } else if (event.type === "done") {
      const { type: _, cwd: _cwd, shellRestarted: _restarted, droppedBytes, ...end } = event;
      const [output, stdout, stderr] = [kept.output.fields(), kept.stdout.fields(), kept.stderr.fields()];
      const dropped = droppedBytes + kept.output.dropped + kept.stdout.dropped + kept.stderr.dropped;
      return {
        ...end,
        status: "completed",
        stdout: stdout.text,
        stderr: stderr.text,
        ...(stdout.base64 && { stdoutBase64: stdout.base64, stdoutEncoding: "base64" as const }),
        ...(stderr.base64 && { stderrBase64: stderr.base64, stderrEncoding: "base64" as const }),
        ...(output.text && { output: output.text }),
        ...(output.base64 && { outputBase64: output.base64, outputEncoding: "base64" as const }),
        droppedBytes: dropped,
        truncated: dropped > 0,
      } as ProcessResult;
    }
  }
  throw new Error("the stream of a process has no end"); // follow throws before
}
