"""An analyst whose Python remembers, and who sees its charts: python data-analyst/main.py "your question"."""

import base64
import os
import sys
from pathlib import Path
from typing import Any

from anthropic import Anthropic

from sandkasten import CodeRun, SyncSandboxClient

DATA = Path(__file__).parent / "sales.csv"
QUESTION = "Which region grew most in 2025? Draw the revenue of all regions."
SYSTEM = (
    f"You analyse {DATA.name}, which is in the working directory, with pandas and matplotlib. "
    "Look at the data first. Answer in one sentence."
)
RUN_CODE = {
    "name": "run_code",
    "description": "Run Python in a kernel that remembers. Returns output, the last value and charts.",
    "input_schema": {
        "type": "object",
        "properties": {"code": {"type": "string"}},
        "required": ["code"],
    },
}


def content(run: CodeRun) -> list[dict[str, Any]]:
    """What a run shows, as the model reads and sees it."""
    texts = [run.stdout, run.text or "", run.error.traceback if run.error else ""]
    blocks: list[dict[str, Any]] = [
        {
            "type": "text",
            "text": "\n".join(filter(None, texts))[:10_000] or "It shows nothing.",
        }
    ]
    for result in run.results:
        if result.png:
            source = {
                "type": "base64",
                "media_type": "image/png",
                "data": base64.b64encode(result.png).decode(),
            }
            blocks.append({"type": "image", "source": source})
    return blocks


def run(question: str, charts: Path) -> str:
    """Answers a question, and writes the charts on the way to files."""
    model, drawn = Anthropic(), 0
    with (
        SyncSandboxClient() as client,
        client.create_session(image=os.environ.get("IMAGE", "data")) as session,
    ):
        session.upload(DATA, DATA.name)
        messages: list[Any] = [{"role": "user", "content": question}]
        while True:
            reply = model.messages.create(
                model=os.environ.get("MODEL", "claude-sonnet-4-5"),
                max_tokens=4096,
                system=SYSTEM,
                tools=[RUN_CODE],
                messages=messages,
            )
            messages.append({"role": "assistant", "content": reply.content})
            if reply.stop_reason != "tool_use":
                return "".join(block.text for block in reply.content if block.type == "text")
            answers: list[Any] = []
            for block in reply.content:
                if block.type != "tool_use":
                    continue
                print(f"> {block.input['code']}\n")
                done = session.run_code(block.input["code"])
                if done.text:
                    print(f"{done.text}\n")
                for chart in (result for result in done.results if result.chart and result.png):
                    drawn += 1
                    file = charts / f"chart-{drawn}.png"
                    file.write_bytes(chart.png)
                    print(f"{file}: {chart.chart.type} chart, {chart.chart.title}\n")
                answers.append(
                    {
                        "type": "tool_result",
                        "tool_use_id": block.id,
                        "content": content(done),
                        "is_error": done.error is not None,
                    }
                )
            messages.append({"role": "user", "content": answers})


if __name__ == "__main__":
    print(run(" ".join(sys.argv[1:]) or QUESTION, Path(os.environ.get("CHARTS", "."))))
