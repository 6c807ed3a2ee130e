// A session that ends with its block.
import { SandboxClient } from "@sandkasten/sdk";

const client = new SandboxClient();
{
  await using session = await client.createSession({ image: "python", ttlSeconds: 600, limits: { memoryMb: 256 } });
  const { output } = await session.exec("python3 -c 'print(6 * 7)'", { timeoutMs: 10_000 });
  console.log(output.trim());
}
console.log((await client.listSessions()).length, "sessions left");
