"""Follows a build, and stops it when it has seen enough."""

import asyncio

from sandkasten import SandboxClient


async def main() -> None:
    async with SandboxClient() as client, await client.create_session(image="base") as session:
        async with session.exec_stream(
            "n=0; while true; do n=$((n + 1)); echo step $n; sleep 0.1; done"
        ) as stream:
            seen = ""
            async for chunk in stream:
                seen += chunk.text
                if "step 3\n" in seen:
                    break
        assert stream.exec_id is not None
        command = session.processes.get(stream.exec_id)
        await command.kill()  # leaving the stream does not end the command
        print("ended:", (await command.wait()).cause)


asyncio.run(main())
