"""A code executor of AutoGen that runs in a sandbox, without a model: python main.py < answer.md

An agent is given it as CodeExecutorAgent("coder", code_executor=executor) of autogen-agentchat.
"""

import asyncio
import re
import sys

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
from pydantic import BaseModel

from sandkasten import ExecResult, SandboxClient, Session

PROGRAMS = {"python": "python3", "py": "python3", "bash": "bash", "sh": "sh", "javascript": "node"}


class SandboxExecutor(CodeExecutor):
    """Runs blocks of code in one sandbox: files of a block are there for the next one."""

    component_config_schema = BaseModel

    def __init__(self, image: str = "python", timeout_ms: int = 60_000) -> None:
        self.image, self.timeout_ms = image, timeout_ms
        self.client: SandboxClient | None = None
        self.session: Session | None = None

    async def start(self) -> None:
        self.client = SandboxClient()
        self.session = await self.client.create_session(image=self.image)

    async def stop(self) -> None:
        if self.session is not None:
            await self.session.destroy()
        if self.client is not None:
            await self.client.aclose()
        self.session = self.client = None

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        output = ""
        for number, block in enumerate(code_blocks, 1):
            task = asyncio.ensure_future(self.execute(f"block_{number}", block))
            cancellation_token.link_future(task)
            done = await task
            if done.timed_out:
                raise asyncio.TimeoutError(output + done.output)
            output += done.output
            if done.exit_code != 0:
                return CodeResult(exit_code=done.exit_code, output=output)
        return CodeResult(exit_code=0, output=output)

    async def execute(self, file: str, block: CodeBlock) -> ExecResult:
        program = PROGRAMS.get(block.language.lower())
        if program is None or self.session is None:
            raise ValueError(f"start the executor, and use one of {', '.join(PROGRAMS)}: {block.language}")
        await self.session.write(file, block.code)
        return await self.session.exec(f"{program} {file}", timeout_ms=self.timeout_ms, on_disconnect="kill")


async def run(answer: str) -> CodeResult:
    blocks = [CodeBlock(code, language) for language, code in re.findall(r"```(\w+)\n(.*?)```", answer, re.S)]
    async with SandboxExecutor() as executor:
        return await executor.execute_code_blocks(blocks, CancellationToken())


if __name__ == "__main__":
    result = asyncio.run(run(sys.stdin.read()))
    print(result.output, end="")
    sys.exit(result.exit_code)
