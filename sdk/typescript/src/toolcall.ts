import type { AgentToolResult } from "./types.js";

const protocol = "2026-07-28";

/** toolCall is a call at /mcp, by the Model Context Protocol's streamable HTTP. */
export function toolCall(scope: string, name: string, input: Record<string, unknown>, { signal }: { signal?: AbortSignal | undefined }) {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": protocol,
    "io.modelcontextprotocol/clientInfo": { name: "sandkasten-typescript", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  return {
    // As it is: the names of a tool's fields are not ours to change.
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: input, _meta: meta } }),
    headers: {
      Accept: "application/json, text/event-stream",
      "Content-Type": "application/json",
      "Mcp-Protocol-Version": protocol,
      "Mcp-Method": "tools/call",
      "Mcp-Name": name,
      "Sandkasten-Scope": scope,
    },
    signal,
  };
}

interface Answer {
  error?: { message: string };
  result?: { content: { type?: string; text?: string; mimeType?: string; data?: string }[]; isError?: boolean };
}

/** toolAnswer is what the answer to such a call says: JSON, or the last event of a stream. */
export async function toolAnswer(response: Response): Promise<AgentToolResult> {
  const text = await response.text();
  const events = text.split("\n").filter((line) => line.startsWith("data:"));
  const { error, result } = JSON.parse(events.at(-1)?.slice("data:".length) ?? text) as Answer;
  if (error) return { text: error.message, isError: true, images: [] };
  const content = result?.content ?? [];
  return {
    text: content.map((part) => part.text ?? "").join(""),
    isError: result?.isError === true,
    images: content.filter(({ type }) => type === "image").map(({ mimeType = "", data = "" }) => ({ mediaType: mimeType, base64: data })),
  };
}
