"""Runs one test in four sandboxes at once."""

import asyncio

from sandkasten import SandboxClient


async def attempt(client: SandboxClient, seed: int) -> str:
    async with await client.create_session(image="python", memory_mb=128) as session:
        program = f"import random; random.seed({seed}); print(random.randint(1, 6))"
        done = await session.processes.run(["python3", "-c", program], timeout_ms=60_000)
        return f"seed {seed}: {(done.stdout or '').strip()}"


async def main() -> None:
    async with SandboxClient() as client:
        for line in await asyncio.gather(*(attempt(client, seed) for seed in range(4))):
            print(line)


asyncio.run(main())
