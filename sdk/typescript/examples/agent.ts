// The loop of an agent whose model speaks the Chat Completions format. The model here is a script; put an HTTP request in
// its place.
import { SandboxClient } from "@sandkasten/sdk";
import { callTool, chatTools, sandboxTools } from "@sandkasten/sdk/ai";

interface Message {
  role: "user" | "assistant" | "tool";
  content?: string;
  tool_call_id?: string;
  tool_calls?: { id: string; function: { name: string; arguments: string } }[];
}

const call = (name: string, input: object): Message => ({
  role: "assistant",
  tool_calls: [{ id: name, function: { name, arguments: JSON.stringify(input) } }],
});
const script: Message[] = [
  call("write", { path: "fib.py", content: "a, b = 0, 1\nfor _ in range(10): a, b = b, a + b\nprint(a)\n" }),
  call("exec", { command: "python3 fib.py" }),
  call("edit", { path: "fib.py", old_text: "range(10)", new_text: "range(20)" }),
  call("exec", { command: "python3 fib.py" }),
  { role: "assistant", content: "The 10th number is 55, the 20th is 6765." },
];
async function model(_messages: Message[], _tools: ReturnType<typeof chatTools>): Promise<Message> {
  return script.shift()!;
}

await using session = await new SandboxClient().createSession({ image: "python" });
const tools = sandboxTools(session);
const messages: Message[] = [{ role: "user", content: "What are the 10th and the 20th Fibonacci number?" }];
for (;;) {
  const answer = await model(messages, chatTools(tools));
  messages.push(answer);
  if (!answer.tool_calls) break;
  for (const { id, function: asked } of answer.tool_calls) {
    const content = await callTool(tools, asked.name, asked.arguments);
    messages.push({ role: "tool", tool_call_id: id, content });
    console.log(`${asked.name}: ${content}`);
  }
}
console.log(messages.at(-1)?.content);
