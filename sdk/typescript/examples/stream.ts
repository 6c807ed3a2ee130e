// The output of a build as it comes, and what became of it.
import { type ExecEvent, SandboxClient } from "@sandkasten/sdk";

await using session = await new SandboxClient().createSession({ image: "base" });

function show(event: ExecEvent): void {
  switch (event.type) {
    case "start":
      console.log("running", event.execId.length === 26);
      break;
    case "chunk":
      process.stdout.write(event.text);
      break;
    case "done":
      console.log(event.cause, event.exitCode, event.outputBytes);
  }
}

for await (const event of session.execStream("for step in configure compile link; do echo $step; done; (exit 2)")) {
  show(event);
}
