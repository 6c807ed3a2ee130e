/** toBase64 encodes bytes, in pieces since a call takes a limited number of arguments. */
export function toBase64(bytes: Uint8Array): string {
  const piece = 0x8000;
  let text = "";
  for (let i = 0; i < bytes.length; i += piece) {
    text += String.fromCharCode(...bytes.subarray(i, i + piece));
  }
  return btoa(text);
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const decoded = atob(text);
  const bytes = new Uint8Array(decoded.length);
  for (let i = 0; i < decoded.length; i++) {
    bytes[i] = decoded.charCodeAt(i);
  }
  return bytes;
}
