/** What a file can be looked at as, beside its text or bytes. */

/** ending is what stands after the last dot of a name, or the whole name, in small letters. */
export const ending = (name: string) => name.slice(name.lastIndexOf(".") + 1).toLowerCase();

export type Kind = "picture" | "table" | "markdown" | "notebook" | "page";

const byEnding: Record<string, Kind> = { csv: "table", tsv: "table", md: "markdown", markdown: "markdown", ipynb: "notebook", svg: "picture", html: "page", htm: "page" };

/** How much is read for an editor, and for each view. What is larger is shown as bytes, which are read piece by piece. */
export const maxText = 1 << 20;
const maxViewed: Record<Kind, number> = { picture: 16 << 20, table: 8 << 20, notebook: 8 << 20, markdown: maxText, page: maxText };

const ascii = (data: Uint8Array, from: number, to: number) => String.fromCharCode(...data.subarray(from, to));

/** pictureType is the type of a picture that a browser draws, by its first bytes: names are whatever a sandbox says. */
export function pictureType(data: Uint8Array): string | undefined {
  if (ascii(data, 0, 8) === "\x89PNG\r\n\x1a\n") return "image/png";
  if (ascii(data, 0, 3) === "\xff\xd8\xff") return "image/jpeg";
  if (/^GIF8[79]a$/.test(ascii(data, 0, 6))) return "image/gif";
  if (ascii(data, 0, 4) === "RIFF" && ascii(data, 8, 12) === "WEBP") return "image/webp";
  if (/^ftypavi[fs]$/.test(ascii(data, 4, 12))) return "image/avif";
  return undefined;
}

/** kindOf is the view of a file with this name that begins with these bytes, if it has one. */
export function kindOf(name: string, head: Uint8Array): Kind | undefined {
  if (pictureType(head)) return "picture";
  return Object.hasOwn(byEnding, ending(name)) ? byEnding[ending(name)] : undefined;
}

/** readable is how many bytes of such a file are read at once. A larger one is only shown as bytes. */
export const readable = (name: string, head: Uint8Array) => {
  const kind = kindOf(name, head);
  return kind && !(kind === "picture" && !pictureType(head)) ? maxViewed[kind] : maxText;
};
