import type { SandboxClient } from "./client.js";
import { APIError } from "./errors.js";
import type { Session } from "./session.js";
import type { AgentToolResult, CallOptions, Entry, ExecResult } from "./types.js";

/** The part of JSON Schema that the tools use. */
export interface ToolSchema {
  type: "object";
  properties: Record<string, { type: "string" | "integer" | "boolean"; description: string }>;
  required: string[];
  additionalProperties: false;
}

/** A tool that a model may call. */
export interface AgentTool {
  name: string;
  description: string;
  parameters: ToolSchema;
  /** Does it and gives what the model is to read. What the daemon refuses is told to the model, too; other errors are thrown. */
  execute(input: Record<string, unknown>, options?: CallOptions): Promise<string>;
}

export interface SandboxToolsOptions {
  /** The longest answer, in characters; of more, the model sees the beginning and the end. 16,000 without it. */
  maxChars?: number | undefined;
  /** What is said of a command without timeout_seconds. The daemon's default without it. */
  execTimeoutSeconds?: number | undefined;
}

const noNetwork =
  "The sandbox has no network: nothing can be downloaded or installed from the internet, and pip, npm, apt-get, git and curl cannot reach other hosts. Use what is installed, or ask for it.";
/** What programs say that have missed it. */
const unreachable =
  /could not resolve|couldn't resolve|temporary failure (in name resolution|resolving)|name or service not known|network is unreachable|EAI_AGAIN|getaddrinfo ENOTFOUND|bad address '/i;

const defaultMaxChars = 16_000;
/** A directory that git does not see, for outputs that an answer has no room for. */
const hiddenDir = ".sandkasten";

/** Larger files are for commands. */
const maxReadBytes = 4 << 20;

/** A tool of the daemon's, whose parameters are any JSON schema. */
export interface ScopeTool extends Omit<AgentTool, "parameters"> {
  parameters: Record<string, unknown>;
  /** As `execute`, with the pictures that it made; see `anthropicContent` and `openAIOutput`. */
  call(input: Record<string, unknown>, options?: CallOptions): Promise<AgentToolResult>;
}

/** anthropicContent is the content of a tool_result for Anthropic's Messages API. */
export function anthropicContent({ text, images }: AgentToolResult) {
  const seen = images.map(({ mediaType, base64 }) => ({ type: "image" as const, source: { type: "base64" as const, media_type: mediaType as "image/png" | "image/jpeg", data: base64 } }));
  return [...(text === "" ? [] : [{ type: "text" as const, text }]), ...seen];
}

/** openAIOutput is the output of a function_call_output for OpenAI's Responses API. */
export function openAIOutput({ text, images }: AgentToolResult) {
  const seen = images.map(({ mediaType, base64 }) => ({ type: "input_image" as const, detail: "auto" as const, image_url: `data:${mediaType};base64,${base64}` }));
  return [{ type: "input_text" as const, text }, ...seen];
}

/** openAIChatImages are the pictures as messages of a user for Chat Completions, which take text of tools only: they come behind the answers to all calls of a turn. */
export function openAIChatImages({ images }: AgentToolResult) {
  const content = images.map(({ mediaType, base64 }) => ({ type: "image_url" as const, image_url: { url: `data:${mediaType};base64,${base64}` } }));
  return content.length === 0 ? [] : [{ role: "user" as const, content }];
}

/**
 * scopeTools gives all tools that the daemon has for agents, in one scope: `workflow:ID`, `agent:ID` or `user:ID`. The
 * model opens sandboxes itself, and every agent of the scope finds the same files. `client.completeScope` ends what they
 * have opened.
 */
export async function scopeTools(client: SandboxClient, scope: string, options: CallOptions = {}): Promise<ScopeTool[]> {
  const definitions = await client.agentTools(options);
  return definitions.map(({ name, description, input_schema: parameters }) => ({
    name,
    description,
    parameters,
    execute: (input, { signal } = {}) => client.callAgentTool(scope, name, input, { signal }),
    call: (input, { signal } = {}) => client.agentToolResult(scope, name, input, { signal }),
  }));
}

/** sandboxTools gives tools that work in a session: exec, read, write, edit and list. */
export function sandboxTools(session: Session, options: SandboxToolsOptions = {}): AgentTool[] {
  const maxChars = options.maxChars ?? defaultMaxChars;
  let outputs = 0;
  const offline = session.info?.networkMode === "none";
  let hinted = !offline;

  /** hint says once that there is no network, when a command has missed it. */
  function hint(output: string): string {
    if (hinted || !unreachable.test(output)) {
      return "";
    }
    hinted = true;
    return `\n[${noNetwork}]`;
  }

  async function exec(input: Input, { signal }: CallOptions): Promise<string> {
    const seconds = input.number("timeout_seconds") ?? options.execTimeoutSeconds;
    const result = await session.exec(input.text("command"), { signal, timeoutMs: seconds === undefined ? undefined : seconds * 1000 });
    if (result.output.length <= maxChars) {
      return withEnd(result, result.output) + hint(result.output);
    }
    const file = `${hiddenDir}/output-${++outputs}.txt`;
    await session.write(file, result.output, { signal });
    const kept = result.truncated ? `its first and last parts are in ${file}` : `all of it is in ${file}`;
    return withEnd(result, cut(result.output, maxChars, `${kept}; read parts of that, or search it with grep`)) + hint(result.output);
  }

  async function read(input: Input, { signal }: CallOptions): Promise<string> {
    const path = input.text("path");
    const { size } = await session.stat(path, { follow: true, signal });
    if (size > maxReadBytes) {
      return `Error: ${path} has ${size} bytes, which is too much; use exec with head, tail, sed or grep.`;
    }
    const bytes = await session.read(path, { signal });
    if (bytes.includes(0)) {
      return `Error: ${path} is a binary file of ${size} bytes; use exec to look into it.`;
    }
    const lines = new TextDecoder().decode(bytes).split("\n");
    if (lines.at(-1) === "") lines.pop();
    const from = Math.max(input.number("start_line") ?? 1, 1);
    const wanted = lines.slice(from - 1, from - 1 + (input.number("max_lines") ?? lines.length));
    return page(wanted, from, lines.length, maxChars);
  }

  async function write(input: Input, { signal }: CallOptions): Promise<string> {
    const content = input.text("content");
    await session.write(input.text("path"), content, { signal });
    return `Wrote ${new TextEncoder().encode(content).length} bytes to ${input.text("path")}.`;
  }

  async function edit(input: Input, { signal }: CallOptions): Promise<string> {
    const count = input.flag("replace_all") ? undefined : 1;
    const { replaced, diff } = await session.edit(input.text("path"), input.text("old_text"), input.text("new_text"), { count, signal });
    return cut(`Replaced ${replaced} times.\n${diff}`, maxChars, "the rest of the diff is not shown");
  }

  async function list(input: Input, { signal }: CallOptions): Promise<string> {
    const entries = await session.list(input.optionalText("path") ?? ".", { depth: input.number("depth"), signal });
    const shown = entries.filter((entry) => entry.name.split("/")[0] !== hiddenDir);
    return shown.length === 0 ? "The directory is empty." : cut(shown.map(line).join("\n"), maxChars, "list a directory below, or less depth");
  }

  return [
    tool("exec", "Run shell commands in a persistent Linux shell. The directory, variables and background jobs stay from one call to the next. Answers with standard output and error together, and the exit code. Long output is shortened in the middle, and the answer says in which file the rest is. A command that waits for input that nobody gives does not end: pass flags such as -y." + (offline ? ` ${noNetwork}` : ""), {
      command: { type: "string", description: "The commands, as bash takes them." },
      timeout_seconds: { type: "integer", description: "After this time the command and all that it started are killed, and what it printed so far is the answer. Start servers in the background with & instead of raising it." },
    }, ["command"], exec),
    tool("read", "Read a text file.", {
      path: { type: "string", description: "Absolute, or relative to /workspace." },
      start_line: { type: "integer", description: "The first line to show; the first of the file is 1." },
      max_lines: { type: "integer", description: "How many lines to show. Without it, all that fit." },
    }, ["path"], read),
    tool("write", "Write a text file. Directories are made, and a file that is there already is replaced as a whole; to change a part of it use edit.", {
      path: { type: "string", description: "Absolute, or relative to /workspace." },
      content: { type: "string", description: "All that the file is to contain." },
    }, ["path", "content"], write),
    tool("edit", "Replace a text in a file by another. The old text must be in the file exactly once, letter by letter with its white space, unless replace_all is true; take lines around it with it where it is not unique. Answers with a diff.", {
      path: { type: "string", description: "Absolute, or relative to /workspace." },
      old_text: { type: "string", description: "The text that is there." },
      new_text: { type: "string", description: "The text to put there." },
      replace_all: { type: "boolean", description: "Replace it wherever it is." },
    }, ["path", "old_text", "new_text"], edit),
    tool("list", "List the files in a directory, with their sizes; directories end in a slash.", {
      path: { type: "string", description: "Absolute, or relative to /workspace, which it is without one." },
      depth: { type: "integer", description: "2 also lists the directories in it, -1 everything below." },
    }, [], list),
  ];
}

/** callTool does what a model asks for: input is an object, or the JSON text of one. */
export async function callTool(tools: AgentTool[], name: string, input: unknown, options: CallOptions = {}): Promise<string> {
  const found = tools.find((candidate) => candidate.name === name);
  if (found === undefined) {
    return `Error: there is no tool ${name}; there are ${tools.map((candidate) => candidate.name).join(", ")}.`;
  }
  let given = input;
  if (typeof input === "string") {
    try {
      given = JSON.parse(input === "" ? "{}" : input);
    } catch {
      return "Error: the arguments are not valid JSON.";
    }
  }
  if (typeof given !== "object" || given === null) {
    return "Error: the arguments are not an object.";
  }
  return found.execute(given as Record<string, unknown>, options);
}

/** For OpenAI's Responses API: `tools: openAITools(tools)`. */
export function openAITools(tools: AgentTool[]) {
  return tools.map(({ name, description, parameters }) => ({ type: "function" as const, name, description, parameters, strict: false }));
}

/** For Chat Completions, as OpenAI and many others speak them. */
export function chatTools(tools: AgentTool[]) {
  return tools.map(({ name, description, parameters }) => ({ type: "function" as const, function: { name, description, parameters } }));
}

/** For Anthropic's Messages API. */
export function anthropicTools(tools: AgentTool[]) {
  return tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters }));
}

/** For the Vercel AI SDK, whose own jsonSchema is passed: `tools: vercelTools(tools, jsonSchema)`. */
export function vercelTools<S>(tools: AgentTool[], jsonSchema: (schema: any) => S) {
  return Object.fromEntries(
    tools.map(({ name, description, parameters, execute }) => [
      name,
      {
        description,
        inputSchema: jsonSchema(parameters),
        execute: (input: any, { abortSignal }: { abortSignal?: AbortSignal | undefined } = {}) => execute(input, { signal: abortSignal }),
      },
    ]),
  );
}

type Properties = ToolSchema["properties"];

function tool(
  name: string,
  description: string,
  properties: Properties,
  required: string[],
  run: (input: Input, options: CallOptions) => Promise<string>,
): AgentTool {
  return {
    name,
    description,
    parameters: { type: "object", properties, required, additionalProperties: false },
    async execute(input, options = {}) {
      try {
        return await run(new Input(input), options);
      } catch (error) {
        // The model can do something about these.
        if (error instanceof BadInput || (error instanceof APIError && error.status < 500)) {
          return `Error: ${error.message}`;
        }
        throw error;
      }
    },
  };
}

class BadInput extends Error {}

/** Arguments as a model wrote them. */
class Input {
  readonly #fields: Record<string, unknown>;

  constructor(fields: Record<string, unknown>) {
    this.#fields = fields;
  }

  text(name: string): string {
    const value = this.optionalText(name);
    if (value === undefined) throw new BadInput(`${name} is missing`);
    return value;
  }

  optionalText(name: string): string | undefined {
    const value = this.#fields[name] ?? undefined;
    if (value !== undefined && typeof value !== "string") throw new BadInput(`${name} must be a text`);
    return value;
  }

  number(name: string): number | undefined {
    const value = this.#fields[name] ?? undefined;
    if (value !== undefined && !Number.isInteger(value)) throw new BadInput(`${name} must be a whole number`);
    return value as number | undefined;
  }

  flag(name: string): boolean {
    return this.#fields[name] === true;
  }
}

/** withEnd says behind the output how the command ended. */
function withEnd(result: ExecResult, output: string): string {
  const notes = [`exit code ${result.exitCode}`];
  if (result.timedOut) notes.push("killed, because its time was up");
  else if (result.cause !== "exited") notes.push(result.cause.replaceAll("_", " "));
  if (result.diskFull) notes.push("the disk is full");
  if (result.exitCode !== 0 && result.networkDenied?.length) {
    const hosts = new Set(result.networkDenied.map((denial) => denial.name ?? denial.address ?? "a host"));
    const entries = new Set(result.networkDenied.flatMap((denial) => denial.entry ?? []));
    const opens = entries.size > 0 ? `, which its allow list opens with ${[...entries].sort().join(" and ")}` : "";
    notes.push(`the sandbox's network refused ${[...hosts].sort().join(" and ")}${opens}`);
  }
  if (result.shellRestarted) notes.push("in a new shell: the one before had ended, with its variables");
  const gap = output === "" || output.endsWith("\n") ? "" : "\n";
  return `${output}${gap}[${notes.join("; ")}; directory ${result.cwd}]`;
}

/** cut keeps the beginning and the end of a text, which say most, at whole lines where they are near. */
function cut(text: string, max: number, where: string): string {
  if (text.length <= max) {
    return text;
  }
  const headEnd = lineBefore(text, Math.floor(max * 0.4));
  const tailStart = lineAfter(text, text.length - Math.floor(max * 0.6));
  const missing = text.slice(headEnd, tailStart);
  return `${text.slice(0, headEnd)}\n[... ${missing.length} characters are left out here; ${where} ...]\n${text.slice(tailStart)}`;
}

const near = 500;

function lineBefore(text: string, at: number): number {
  const line = text.lastIndexOf("\n", at);
  return line > at - near && line > 0 ? line : wholeCharacter(text, at);
}

function lineAfter(text: string, at: number): number {
  const line = text.indexOf("\n", at);
  return line >= 0 && line < at + near ? line + 1 : wholeCharacter(text, at);
}

/** A place that is not between the two halves of a character. */
function wholeCharacter(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at - 1 : at;
}

/** page shows as many lines as fit, and says which they are where they are not all. */
function page(lines: string[], from: number, total: number, maxChars: number): string {
  let length = 0;
  let fit = 0;
  while (fit < lines.length && (length += (lines[fit]?.length ?? 0) + 1) <= maxChars) {
    fit++;
  }
  if (fit === 0 && lines.length > 0) {
    return `${cut(lines[0] ?? "", maxChars, "use exec with cut or head -c for this line")}\n[line ${from} of ${total}]`;
  }
  const text = lines.slice(0, fit).join("\n");
  if (fit === total) {
    return text === "" ? "The file is empty." : text;
  }
  if (fit === 0) {
    return `[the file has ${total} lines]`;
  }
  return `${text}\n[lines ${from} to ${from + fit - 1} of ${total}; use start_line for others]`;
}

function line({ name, type, size, target }: Entry): string {
  switch (type) {
    case "dir":
      return `${name}/`;
    case "symlink":
      return `${name} -> ${target}`;
    case "file":
      return `${name} (${size} bytes)`;
    default:
      return `${name} (${type})`;
  }
}
