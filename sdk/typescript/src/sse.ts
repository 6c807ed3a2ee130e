/** One server-sent event. */
export interface ServerEvent {
  event: string;
  id: string;
  data: string;
}

/** serverEvents reads events until the body ends. An event that the end cuts off is not given out. */
export async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent, void, undefined> {
  const reader = body.getReader();
  try {
    const decoder = new TextDecoder();
    let rest = "";
    let event = { event: "", id: "", data: "" };
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      // Only the new part is searched: a long line would be searched again and again.
      const text = decoder.decode(value, { stream: true });
      let from = 0;
      for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
        const line = rest + text.slice(from, end);
        rest = "";
        from = end + 1;
        if (line !== "" && line !== "\r") {
          addField(event, line.endsWith("\r") ? line.slice(0, -1) : line);
        } else if (event.event !== "" || event.data !== "" || event.id !== "") {
          // One without a name only tells another id to resume from.
          yield event;
          event = { event: "", id: "", data: "" };
        }
      }
      rest += text.slice(from);
    }
  } finally {
    // Also ends the request where the caller leaves early.
    await reader.cancel().catch(() => {});
  }
}

function addField(event: ServerEvent, line: string): void {
  const colon = line.indexOf(":");
  const name = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
  switch (name) {
    case "event":
      event.event = value;
      break;
    case "id":
      event.id = value;
      break;
    case "data":
      event.data = event.data === "" ? value : event.data + "\n" + value;
      break;
  }
}
