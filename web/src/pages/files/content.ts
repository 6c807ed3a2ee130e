/** What the bytes of a file are: decided by the bytes, since names are whatever a sandbox says. */

/** A file that is text, taken apart so that it can be put together again byte by byte. */
export interface TextFile {
  /** Without the mark. Lines end with `lineEnd`. */
  text: string;
  byteOrderMark: boolean;
  /** Where a file mixes line ends, "\n": the others are then characters of the lines. */
  lineEnd: "\n" | "\r\n" | "\r";
  mixed: boolean;
}

const mark = "\ufeff";

/** decode gives nothing for what is not UTF-8, or has zero bytes as no text has. */
export function decode(data: Uint8Array): TextFile | undefined {
  if (data.includes(0)) return undefined;
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return undefined;
  }
  const byteOrderMark = text.startsWith(mark);
  if (byteOrderMark) text = text.slice(mark.length);
  const ends = new Set<string>();
  for (const [end] of text.matchAll(/\r\n|\n|\r/g)) ends.add(end);
  const mixed = ends.size > 1;
  const lineEnd = ends.size === 1 ? ([...ends][0] as TextFile["lineEnd"]) : "\n";
  return { text, byteOrderMark, lineEnd, mixed };
}

/** unify gives lines that end as those of a text box do. */
export const unify = (text: string) => text.replace(/\r\n?/g, "\n");

/** encode is the other way of decode and unify. */
export function encode(text: string, { byteOrderMark, lineEnd }: TextFile): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode((byteOrderMark ? mark : "") + text.replaceAll("\n", lineEnd));
}

export function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}
