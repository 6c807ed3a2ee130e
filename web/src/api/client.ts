/** The daemon, in the name of who has signed in with this browser. */
import { SandboxClient } from "@sandkasten/sdk";

/** What the daemon says of a sign-in. */
export interface SignIn {
  signed_in: boolean;
  csrf_token?: string;
  ways: ("password" | "api_key" | "oidc")[];
  me?: { owner: string; admin: boolean; read_only?: boolean; user?: { name: string } };
}

let token: string | undefined;
/** Whether the daemon has said that nobody is signed in. Nothing is asked of it then that needs somebody. */
let over = false;

/** withCookie is fetch with the cookie of the sign-in, which no script can read, and the token beside it. */
async function withCookie(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  if (over) return Response.json({ error: "the sign-in has ended", code: "unauthenticated" }, { status: 401 });
  const headers = new Headers(init.headers);
  headers.delete("Authorization");
  headers.delete("X-API-Key");
  if (token !== undefined) headers.set("X-CSRF-Token", token);
  const response = await fetch(input, { ...init, headers, credentials: "same-origin" });
  if (response.status === 401) signedOut.dispatchEvent(new Event("doubt"));
  return response;
}

/** CookieSocket leaves out the subprotocol in which the SDK hands its key over. */
class CookieSocket extends WebSocket {
  constructor(url: string | URL, protocols: string | string[] = []) {
    super(url, [protocols].flat().filter((name) => !name.startsWith("sandkasten.key.")));
  }
}

/**
 * signedOut tells of a "doubt", that the sign-in may have ended or be another's, which the daemon knows; and of a "leave", that
 * somebody has signed out, here or in another tab, or that another has signed in: nothing of before may stay.
 */
export const signedOut = new EventTarget();
const tabs = new BroadcastChannel("sandkasten");
tabs.onmessage = ({ data }) => signedOut.dispatchEvent(new Event(data === "signed out" ? "leave" : "doubt"));

export const client = new SandboxClient({ baseUrl: window.location.origin, apiKey: "cookie", retryMs: 2000, fetch: withCookie, webSocket: CookieSocket });

async function ask(path: string, init?: RequestInit): Promise<SignIn> {
  const response = await fetch(path, { ...init, credentials: "same-origin", headers: { "Content-Type": "application/json", ...(token && { "X-CSRF-Token": token }) } });
  const answer = (await response.json()) as SignIn & { error?: string };
  if (!response.ok) throw new Error(answer.error ?? `the daemon answered with ${response.status}`);
  token = answer.csrf_token ?? token;
  if (answer.signed_in !== undefined) over = !answer.signed_in;
  return answer;
}

export const currentSignIn = () => ask("/v1/auth/session");

export async function signIn(body: { name: string; password: string } | { api_key: string }): Promise<SignIn> {
  const answer = await ask("/v1/auth/sign-in", { method: "POST", body: JSON.stringify(body) });
  tabs.postMessage("signed in");
  return answer;
}

export async function signOut(everywhere = false): Promise<void> {
  await ask(`/v1/auth/sign-out${everywhere ? "?everywhere=true" : ""}`, { method: "POST" });
  token = undefined;
  signedOut.dispatchEvent(new Event("leave"));
  tabs.postMessage("signed out");
}

/** What upload says of an answer that is an error. */
export class UploadError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/**
 * upload sends a file, by default a tar file, and reports which part of it has gone, from 0 to 1, which fetch cannot. The
 * browser reads the file from the disk while it sends it.
 */
export function upload(
  path: string,
  file: Blob,
  onProgress: (part: number) => void,
  { method = "POST", type = "application/x-tar", headers = {}, signal }: { method?: string; type?: string; headers?: Record<string, string>; signal?: AbortSignal } = {},
): Promise<void> {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open(method, path);
    for (const [name, value] of Object.entries({ ...headers, "Content-Type": type })) request.setRequestHeader(name, value);
    if (token !== undefined) request.setRequestHeader("X-CSRF-Token", token);
    request.upload.onprogress = (event) => onProgress(event.loaded / Math.max(1, event.total));
    request.onerror = () => fail(new Error("The connection broke before the upload was over, or the file cannot be read any more. Nothing was changed: try again."));
    request.onabort = () => fail(signal?.reason);
    request.onload = () => {
      if (request.status === 401) signedOut.dispatchEvent(new Event("doubt"));
      if (request.status < 300) done();
      else fail(new UploadError(request.status, errorOf(request.responseText) ?? `the daemon answered with ${request.status}`));
    };
    signal?.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

function errorOf(body: string): string | undefined {
  try {
    return (JSON.parse(body) as { error?: string }).error;
  } catch {
    return undefined;
  }
}
