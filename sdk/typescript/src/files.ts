import { APIError, ConnectionError, SandkastenError, apiError } from "./errors.js";
import { bodyOf } from "./follow.js";
import type * as schemas from "./schemas.js";
import { serverEvents } from "./sse.js";
import { type Transport, lost, newKey, parse } from "./transport.js";
import type * as types from "./types.js";

/** What can be uploaded. A Blob may be a file on disk: `await fs.openAsBlob(name)` in Node, `Bun.file(name)`, a browser's File. */
export type UploadData = string | Uint8Array | Blob | ReadableStream<Uint8Array>;

/** How much of a stream is sent in one request. */
const partBytes = 4 << 20;
/** Entries in one page of a directory. */
const pageEntries = 1000;

/** The files of a session or workspace. Paths are absolute or begin at /workspace. */
export class Files {
  /** @internal */
  protected readonly transport: Transport;
  /** @internal */
  protected readonly path: string;

  #user: string | undefined;

  /** @internal */
  constructor(transport: Transport, path: string) {
    this.transport = transport;
    this.path = path;
  }

  /**
   * The calls for files with the rights of a user of the sandbox, to whom belongs what they make: a name or a number, with
   * `:group` if wanted.
   */
  filesAs(user: string): Files {
    const files = new Files(this.transport, this.path);
    files.#user = user;
    return files;
  }

  /** Writes a file, and its directories, in one step. With `ifMatch` it gives the `etag` of what it wrote, for the next one. */
  async write(path: string, data: string | Uint8Array, options: types.WriteOptions = {}): Promise<string | undefined> {
    const etag = await this.#put(path, data as string | Uint8Array<ArrayBuffer>, options);
    return options.ifMatch === undefined ? undefined : etag;
  }

  /** Reads a file as bytes. */
  async read(path: string, options: types.ReadOptions = {}): Promise<Uint8Array> {
    const { signal, ...rest } = options;
    return this.transport.bytes(`${this.path}/fs/read`, { query: { path, raw: true, ...rest, user: this.#user }, signal });
  }

  /** Reads a file as UTF-8. */
  async readText(path: string, options: types.ReadOptions = {}): Promise<string> {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await this.read(path, options));
  }

  /**
   * Writes a file of any size. It has its name when it is whole; a stream, whose size nobody knows, is collected in a
   * hidden file beside it until then, and so cannot be sent with `ifMatch`. With that it gives the `etag` of what it wrote.
   */
  async upload(path: string, data: UploadData, options: Omit<types.WriteOptions, "append"> = {}): Promise<string | undefined> {
    if (!(data instanceof ReadableStream)) {
      return this.#put(path, data as BodyInit, options);
    }
    if (options.ifMatch !== undefined) {
      throw new SandkastenError("a stream cannot replace a file by its etag: upload bytes or a Blob");
    }
    const slash = path.lastIndexOf("/") + 1;
    const unique = Math.random().toString(36).slice(2);
    const part = `${path.slice(0, slash)}.${path.slice(slash, slash + 100)}.${unique}.part`;
    const { signal, create } = options;
    try {
      let append = false;
      for await (const bytes of parts(data)) {
        await this.#put(part, bytes, { ...options, create: !append, append });
        append = true;
      }
      await this.move(part, path, { overwrite: create !== true, signal });
      return undefined;
    } catch (error) {
      await data.cancel(error).catch(() => {});
      await this.remove(part).catch(() => {}); // it may never have been made
      throw error;
    }
  }

  /**
   * Writes files, given by their names, in one request, and gives their paths. With one file, `path` is its path unless it
   * ends in a slash or is a directory; with several it is the directory; without it, /workspace. Each file is written in one
   * step, and none before all have arrived.
   */
  async uploadFiles(files: Record<string, string | Uint8Array | Blob>, path?: string, options: types.CallOptions = {}): Promise<string[]> {
    const { body, type } = form(files, path);
    const headers = { "Content-Type": type };
    const done = await this.transport.json<schemas.SchemaUploaded>("POST", `${this.path}/fs/upload`, { query: { user: this.#user }, body, headers, ...options });
    return done.paths;
  }

  /** Reads a file of any size as a stream. */
  async download(path: string, options: types.CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const response = await this.transport.response("GET", `${this.path}/fs/read`, { query: { path, raw: true, user: this.#user }, ...options });
    return bodyOf(response);
  }

  /** The entries of a directory. With a depth of 2 also those of the directories in it, with -1 all. */
  async list(path = ".", options: types.CallOptions & { depth?: number | undefined } = {}): Promise<types.Entry[]> {
    const { depth, signal } = options;
    const entries: types.Entry[] = [];
    let cursor: string | undefined;
    do {
      const page: schemas.SchemaList = await this.#get("list", { path, depth, limit: pageEntries, cursor }, signal);
      entries.push(...page.entries);
      cursor = page.truncated ? page.nextCursor : undefined;
    } while (cursor !== undefined);
    return entries;
  }

  /** Describes a file of any kind; a link itself, unless `follow` is set. */
  async stat(path: string, options: types.CallOptions & { follow?: boolean | undefined } = {}): Promise<types.Stat> {
    return this.#get("stat", { path, follow: options.follow }, options.signal);
  }

  /** Whether there is anything at a path. A link counts, wherever it leads. */
  async exists(path: string, options: types.CallOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (error) {
      if (error instanceof APIError && (error.reason === "no_such_file" || error.reason === "not_a_directory")) return false;
      throw error;
    }
  }

  /** Replaces a text wherever it is in a file. If `count` is given it must be there exactly so often, else at least once. */
  async edit(path: string, old: string, replacement: string, options: types.CallOptions & { count?: number | undefined } = {}): Promise<types.EditResult> {
    return this.#post("edit", { path, old, new: replacement, count: options.count }, options.signal);
  }

  async makeDir(path: string, options: types.CallOptions & { mode?: string | undefined; parents?: boolean | undefined } = {}): Promise<void> {
    const { signal, ...rest } = options;
    await this.#post("mkdir", { path, ...rest }, signal);
  }

  /** Renames in one step. What is there is only replaced with `overwrite`. */
  async move(from: string, to: string, options: types.CallOptions & { overwrite?: boolean | undefined } = {}): Promise<void> {
    await this.#post("move", { from, to, overwrite: options.overwrite }, options.signal);
  }

  async copy(from: string, to: string, options: types.CallOptions & { overwrite?: boolean | undefined; recursive?: boolean | undefined } = {}): Promise<void> {
    const { signal, ...rest } = options;
    await this.#post("copy", { from, to, ...rest }, signal);
  }

  /** Removes a file, an empty directory, or with `recursive` a directory with all that is in it. */
  async remove(path: string, options: types.CallOptions & { recursive?: boolean | undefined } = {}): Promise<void> {
    await this.#post("delete", { path, recursive: options.recursive }, options.signal);
  }

  async chmod(path: string, mode: string, options: types.CallOptions & { recursive?: boolean | undefined } = {}): Promise<void> {
    await this.#post("chmod", { path, mode, recursive: options.recursive }, options.signal);
  }

  /** Files by name: `*`, `?`, `[a-z]`, `{a,b}`, and `**` for any number of directories. */
  async glob(pattern: string, options: types.CallOptions & { path?: string | undefined; hidden?: boolean | undefined; limit?: number | undefined } = {}): Promise<types.Entry[]> {
    const { signal, ...rest } = options;
    const found: schemas.SchemaFound = await this.#get("glob", { path: ".", pattern, ...rest }, signal);
    return found.entries;
  }

  /** Lines by their text: a regular expression in RE2's syntax, or with `literal` text. */
  async grep(pattern: string, options: types.GrepOptions = {}): Promise<types.Match[]> {
    const { signal, ...rest } = options;
    const found: schemas.SchemaMatches = await this.#get("grep", { path: ".", pattern, ...rest }, signal);
    return found.matches;
  }

  /** A directory as an archive. */
  async downloadArchive(path: string, format: types.ArchiveFormat = "tar.gz", options: types.CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const response = await this.transport.response("GET", `${this.path}/fs/archive`, { query: { path, format, user: this.#user }, ...options });
    return bodyOf(response);
  }

  /** Unpacks an archive into a directory, which is made if it is missing. */
  async uploadArchive(path: string, data: Uint8Array | Blob, format: types.ArchiveFormat = "tar.gz", options: types.CallOptions = {}): Promise<void> {
    await this.transport.json("PUT", `${this.path}/fs/archive`, { query: { path, format, user: this.#user }, body: data as BodyInit, ...options });
  }

  async #get<T>(verb: string, query: Record<string, string | number | boolean | undefined>, signal?: AbortSignal): Promise<T> {
    return this.transport.json("GET", `${this.path}/fs/${verb}`, { query: { ...query, user: this.#user }, signal });
  }

  async #post<T>(verb: string, json: unknown, signal?: AbortSignal): Promise<T> {
    return this.transport.json("POST", `${this.path}/fs/${verb}`, { query: { user: this.#user }, json, signal });
  }

  async #put(path: string, body: BodyInit, options: types.WriteOptions): Promise<string | undefined> {
    const { mode, create, append, ifMatch, modifiedAt, signal } = options;
    const written = await this.transport.json<schemas.SchemaWritten>("PUT", `${this.path}/fs/raw`, {
      query: { path, mode, create, append, modified_at: modifiedAt?.toISOString(), user: this.#user },
      headers: { "Content-Type": "application/octet-stream", ...(ifMatch !== undefined && { "If-Match": ifMatch }) },
      body,
      signal,
    });
    return written.etag;
  }
}

/** watch gives the changes of a directory as they are told. */
export async function* watch(
  transport: Transport,
  sessionPath: string,
  path: string,
  options: types.CallOptions & { recursive?: boolean | undefined; user?: string | undefined },
): AsyncGenerator<types.WatchEvent, void, undefined> {
  const response = await transport.response("GET", `${sessionPath}/fs/watch`, {
    query: { path, recursive: options.recursive, user: options.user },
    signal: options.signal,
  });
  try {
    for await (const { event, data } of serverEvents(bodyOf(response))) {
      const body = parse(data) as { path?: string; from?: string; type?: string };
      if (event === "error") {
        throw apiError(body);
      }
      const { type: kind, ...rest } = body;
      yield { type: event as types.WatchEvent["type"], ...rest, ...(kind !== undefined && { kind }) };
    }
  } catch (error) {
    throw error instanceof SandkastenError ? error : lost(error, options.signal);
  }
  throw new ConnectionError("the stream of changes ended");
}

/** form is not made by FormData, which changes the quotes in a name for good. Blobs on disk are read as they are sent. */
function form(files: Record<string, string | Uint8Array | Blob>, path: string | undefined): { body: Blob; type: string } {
  const boundary = `sandkasten-${newKey()}`;
  const pieces: BlobPart[] = [];
  if (path !== undefined) {
    pieces.push(`--${boundary}\r\nContent-Disposition: form-data; name="path"\r\n\r\n${path}\r\n`);
  }
  for (const [name, data] of Object.entries(files)) {
    if (!/^[^/\r\n\0]+$/.test(name)) {
      throw new SandkastenError(`the name ${JSON.stringify(name)} of a file to upload is empty or has a slash or a line's end in it: give its directory apart, or use write`);
    }
    const quoted = name.replace(/[\\"]/g, "\\$&");
    pieces.push(`--${boundary}\r\nContent-Disposition: form-data; name="files"; filename="${quoted}"\r\n\r\n`, data as BlobPart, "\r\n");
  }
  return { body: new Blob([...pieces, `--${boundary}--\r\n`]), type: `multipart/form-data; boundary=${boundary}` };
}

/** parts joins what a stream gives to pieces of at least partBytes, and gives one piece at least. */
async function* parts(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> {
  const reader = stream.getReader();
  try {
    let held: Uint8Array[] = [];
    let size = 0;
    let given = false;
    for (;;) {
      const { done, value } = await reader.read();
      if (value !== undefined) {
        held.push(value);
        size += value.length;
      }
      if (done ? size > 0 || !given : size >= partBytes) {
        yield join(held, size);
        given = true;
        held = [];
        size = 0;
      }
      if (done) {
        return;
      }
    }
  } finally {
    reader.releaseLock();
  }
}

function join(pieces: Uint8Array[], size: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
