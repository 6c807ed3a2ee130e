"""Runs the cells of a corpus, or a notebook, by nbclient, and writes what Jupyter itself answers for each.

    python3 record.py cells.txt answers.json
    python3 record.py notebook.ipynb answers.json

It needs nbclient, in the directory that NOTEBOOK_PACKAGES names. The kernel's own packages come before these. A run
becomes: its status, its number, the text of each stream, its results and its exceptions. Of what differs between two
kernels in any case, such as addresses, only the kind is kept, and of long texts their length and sum; corpus_test.go
does the same with answers of contexts.
"""
import asyncio
import hashlib
import importlib.metadata
import json
import os
import re
import sys

sys.path.append(os.environ.get("NOTEBOOK_PACKAGES", ""))  # not PYTHONPATH, which kernels have too

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
LONG = 4096
TRACEBACK = 64 << 10


def steady(text):
    text = re.sub(r"\b0x[0-9a-f]{6,}", "0xADDRESS", text)
    text = re.sub(r"ipykernel_\d+/\d+", "ipykernel_PID/CELL", text)
    text = re.sub(r"_handle_events\(\d+", "_handle_events(FD", text)
    if len(text.encode(errors="replace")) <= LONG:
        return text
    data = text.encode(errors="replace")
    return "%d bytes %s" % (len(data), hashlib.sha256(data).hexdigest())


def shown(text):
    """The text of a stream as a page shows it: as nbclient's coalesce_streams means to."""
    text = ESCAPES.sub("", text)
    lines = []
    for line in text.split("\n"):
        line = line.rstrip("\r").rpartition("\r")[2]
        before = None
        while line != before and "\b" in line:
            before, line = line, re.sub("^\b+|[^\b]\b", "", line)
        lines.append(line)
    return "\n".join(lines)


def value(mime, content):
    if isinstance(content, list) and not mime.endswith("json"):
        content = "".join(content)
    if not isinstance(content, str):
        return content
    if mime == "text/plain":
        content = ESCAPES.sub("", content)
    if mime.startswith("image/") and "svg" not in mime:
        content = content.strip()
    return steady(content)


def error_of(name, text, traceback):
    traceback = ESCAPES.sub("", "\n".join(traceback))
    if len(traceback) > TRACEBACK:  # as docs/contexts.md has it
        left_out = len(traceback) - TRACEBACK
        traceback = "%s\n[%d characters left out]\n%s" % (traceback[:TRACEBACK // 2], left_out, traceback[-TRACEBACK // 2:])
    return {"name": name, "value": steady(ESCAPES.sub("", text)), "traceback": steady(traceback)}


def answer_of(outputs, reply, count):
    """What a run answers. The exception that ended the code is that of the reply. Jupyter displays others as well, such
    as that of an object's repr: a page shows them where they came, and they are the end of stderr here."""
    streams = {"stdout": "", "stderr": ""}
    results, error, shown_errors = [], None, ""
    if reply.get("status") == "error":
        error = error_of(reply["ename"], reply["evalue"], reply["traceback"])
    last = max((n for n, o in enumerate(outputs) if o.output_type == "error" and error == error_of(o.ename, o.evalue, o.traceback)), default=None)
    for n, o in enumerate(outputs):
        if o.output_type == "stream":
            streams[o.name] += o.text
        elif o.output_type == "error":
            if n != last:
                shown_errors += "\n".join(o.traceback).rstrip("\n") + "\n"
        else:
            results.append({"data": {m: value(m, c) for m, c in sorted(o.data.items())}, "main": o.output_type == "execute_result"})
    streams["stderr"] += shown_errors
    for payload in reply.get("payload") or []:
        if payload.get("source") == "page":
            results.append({"data": {m: value(m, c) for m, c in sorted(payload["data"].items())}, "main": False})
    found = {"status": reply["status"], "execution_count": count, "results": results, "error": error}
    for name, text in streams.items():
        found[name] = shown(text)
    return found


class Recorder:
    """Runs cells one after another in one kernel, and in another one when it has ended."""

    def __init__(self):
        self.client = None

    async def start(self):
        notebook = nbformat.v4.new_notebook()
        # Outputs come until 4 s after the reply, as on a loaded machine they must.
        self.client = NotebookClient(notebook, kernel_name="python3", allow_errors=True, interrupt_on_timeout=True, store_widget_state=False, iopub_timeout=4)
        self.client.create_kernel_manager()
        await self.client.async_start_new_kernel()
        await self.client.async_start_new_kernel_client()

    async def run(self, code, timeout=None):
        if self.client is None:
            await self.start()
        client = self.client
        client.timeout = timeout or 120
        replies = []
        client.on_cell_executed = lambda **kw: replies.append(kw["execute_reply"])
        cell = nbformat.v4.new_code_cell(code)
        client.nb.cells.append(cell)
        at = len(client.nb.cells) - 1
        reply = {"status": "ok"}
        try:
            await client.async_execute_cell(cell, at)
        except DeadKernelError:
            reply, self.client = {"status": "died"}, None
            try:
                await client._async_cleanup_kernel()
            except Exception:
                pass
        for one in replies:
            reply = one["content"]
        found = answer_of(cell.outputs, reply, cell.execution_count or 0)
        if not code.strip():
            found["execution_count"] = None  # nbclient runs nothing then
        if timeout is not None:
            found["stdout"] = found["stdout"][:1000]
            if found["error"]:
                found["error"]["traceback"] = None  # where it was
        if reply["status"] == "died":
            found["execution_count"] = None  # said or not, as the kernel died
        for name in ("stdout", "stderr"):
            found[name] = steady(found[name])
        return found

    async def stop(self):
        if self.client is not None:
            await self.client._async_cleanup_kernel()


def cases_of(path):
    """The cases of a corpus: their name, what is in brackets behind it, and their cells."""
    for part in re.split(r"(?m)^#### ", open(path, encoding="utf-8").read())[1:]:
        head, _, body = part.partition("\n")
        name, option = re.fullmatch(r"(.*?)(?: \[(.*)\])?", head).groups()
        yield name, option or "", [c[:-1] if c.endswith("\n") else c for c in re.split(r"(?m)^\+\+\+\n", body)]


async def record(path):
    recorder, answers = Recorder(), []
    try:
        if path.endswith(".ipynb"):
            for cell in nbformat.read(path, 4).cells:
                if cell.cell_type == "code":
                    answers.append(await recorder.run(cell.source))
            return answers
        for name, option, cells in cases_of(path):
            timeout = int(option.split()[1]) if option.startswith("timeout") else None
            runs = [await recorder.run(code, timeout if n == 0 else None) for n, code in enumerate(cells)]
            answers.append({"name": name, "runs": runs})
            print(name, file=sys.stderr)
        return answers
    finally:
        await recorder.stop()


if __name__ == "__main__":
    found = {"versions": {p: importlib.metadata.version(p) for p in ("ipykernel", "ipython", "jupyter_client")}, "answers": asyncio.run(record(sys.argv[1]))}
    with open(sys.argv[2], "w") as out:  # to stdout kernels write
        json.dump(found, out, indent=1)
        out.write("\n")
