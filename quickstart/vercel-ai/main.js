// An agent of the Vercel AI SDK, in a sandbox: npm start -- "your task".
import { anthropic } from "@ai-sdk/anthropic";
import { SandboxClient } from "@sandkasten/sdk";
import { sandboxTools, vercelTools } from "@sandkasten/sdk/ai";
import { generateText, jsonSchema, stepCountIs } from "ai";

const task = process.argv.slice(2).join(" ") || "Write a Python program that prints the first 10 prime numbers, run it, and tell me what it printed.";

const session = await new SandboxClient().createSession({ image: "python" });
try {
  const { text } = await generateText({
    model: anthropic(process.env.MODEL ?? "claude-sonnet-4-5"),
    system: "You work in a Linux sandbox. Its directory for your files is /workspace.",
    tools: vercelTools(sandboxTools(session), jsonSchema),
    stopWhen: stepCountIs(50),
    prompt: task,
    onStepFinish: ({ toolCalls }) => toolCalls.forEach(({ toolName, input }) => console.log(`> ${toolName} ${JSON.stringify(input)}`)),
  });
  console.log(text);
} finally {
  await session.destroy();
}
