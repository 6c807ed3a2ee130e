"""The cases of sdk/contract, with both clients."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import json
import os
import re
import secrets
import tempfile
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import sandkasten

CASES = json.loads((Path(__file__).resolve().parents[2] / "contract" / "cases.json").read_text())
REFERENCE = re.compile(r"\$\{([\w.]+)\}")
CLASSES = {
    400: "InvalidArgumentError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    412: "PreconditionFailedError",
    422: "UnprocessableError",
    429: "RateLimitError",
    501: "UnimplementedError",
}


class Case:
    """One case with what its steps have made."""

    def __init__(self, side: Any) -> None:
        self.side = side
        self.clients: dict[str, Any] = {}
        self.results: dict[str, Any] = {"unique": secrets.token_hex(6)}
        self.handles: dict[str, Any] = {}
        self.sessions: list[Any] = []
        self.workspaces: set[str] = set()

    def client(self, kind: str = "plain", key: str | None = None) -> Any:
        name = key or kind
        if name not in self.clients:
            options = {
                "plain": {"api_key": key, "max_retries": 0},
                "flaky": {"base_url": os.environ.get("SANDKASTEN_FLAKY_URL")},
                "wrong_key": {"api_key": "wrong", "max_retries": 0},
            }[kind]
            self.clients[name] = self.side.client(**options)
        return self.clients[name]

    def run(self, step: dict[str, Any]) -> None:
        args = self.fill(step.get("with", {}))
        where = json.dumps(step)
        if "error" in step:
            with pytest.raises(sandkasten.APIError) as caught:
                self.do(step, args)
            wanted = self.fill(step["error"])
            assert isinstance(caught.value, getattr(sandkasten, CLASSES[wanted["status"]])), where
            assert match(wanted, plain(vars(caught.value))), f"{where}\ngave {vars(caught.value)}"
            return
        result = plain(self.do(step, args))
        if "as" in step:
            self.results[step["as"]] = result
        if "expect" in step:
            assert match(self.fill(step["expect"]), result), f"{where}\ngave {str(result)[:2000]}"

    def do(self, step: dict[str, Any], args: dict[str, Any]) -> Any:
        name = step["do"]
        for field in ("workspace_id", "id"):
            if field in args and (field == "workspace_id" or name == "create_workspace"):
                self.workspaces.add(args[field])
        if "on" in step:
            target = self.handles[step["on"]]
        else:
            target = self.client(step.get("client", "plain"), self.fill(step.get("key")))
        if "user" in step:
            target = target.files_as(step["user"])
        if special := getattr(self, "do_" + name, None):
            result = special(target, args)
        else:
            result = self.call(getattr(target, name), **args)
        forks = result if name == "fork" else []
        for made in forks or [result]:
            if isinstance(made, (sandkasten.Session, sandkasten.SyncSession)):
                self.sessions.append(made)
        self.handles |= {f"{step.get('as')}{i}": fork for i, fork in enumerate(forks)}
        if "as" in step:
            self.handles[step["as"]] = result
        return result

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        return self.side.call(function, *args, **kwargs)

    def clean(self) -> None:
        client = self.client()
        for session in self.sessions:
            self.call(session.destroy)
        for workspace in self.workspaces:
            with contextlib.suppress(sandkasten.NotFoundError):
                self.call(client.delete_workspace, workspace, force=True)
        for each in self.clients.values():
            self.call(getattr(each, "aclose", None) or each.close)

    # The steps whose arguments or results are not those of the call.

    def do_events(self, client: Any, args: dict[str, Any]) -> Any:
        count = args.pop("count")
        told = self.side.take(client.events(**args), count)
        return {"events": told, "last": told[-1].id}

    def do_get_session(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.get_session, args["id"])

    def do_create_workspace(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.create_workspace, args.pop("id", None), **args)

    def do_get_workspace(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.get_workspace, args["id"])

    def do_delete_workspace(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.delete_workspace, args.pop("id"), **args)

    def do_get_snapshot(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.get_snapshot, args["id"])

    def do_delete_snapshot(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.delete_snapshot, args["id"])

    def do_get_image(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.get_image, args["name"])

    def do_delete_image(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.delete_image, args["name"])

    def do_get_image_job(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.get_image_job, args["id"])

    def do_cancel_image_job(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.cancel_image_job, args["id"])

    def do_wait_image_job(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.wait_image_job, args["id"])

    def do_change_sessions(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.change_sessions, args["action"], args["ids"])

    def do_complete_scope(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.complete_scope, args.pop("scope"), **args)

    def do_all_usage(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.all_usage, **args)

    def do_usage_days(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.usage_days, **args)

    def do_list_inspections(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.list_inspections)

    def do_list_audit(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.list_audit, **args)

    def do_host_history(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.host_history, **args)

    def do_host_findings(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.host_findings)

    def do_revoke_key(self, client: Any, args: dict[str, Any]) -> Any:
        return self.call(client.revoke_key, args["id"])

    def do_copy_snapshot(self, client: Any, args: dict[str, Any]) -> Any:
        archive = b"".join(self.side.drain(client.download_snapshot(args.pop("id"))))
        return self.call(client.upload_snapshot, archive, **args)

    def do_exec_stream(self, session: Any, args: dict[str, Any]) -> Any:
        return self.streamed(session.exec_stream(**args))

    def do_cancel_exec(self, session: Any, args: dict[str, Any]) -> Any:
        path = args.pop("path")

        def begun() -> None:
            while not self.call(session.exists, path):
                pass

        cancelled = self.side.cancel(session.exec, begun, **args)
        record = self.call(session.processes.get(args["exec_id"]).wait)
        assert monotonic() - cancelled < 1
        return record

    def do_attach(self, session: Any, args: dict[str, Any]) -> Any:
        return self.streamed(session.attach(**args))

    def do_process_stream(self, process: Any, args: dict[str, Any]) -> Any:
        return self.streamed(process.stream(**args))

    def streamed(self, stream: Any) -> Any:
        output = {"stdout": b"", "stderr": b"", "output": b""}
        for chunk in self.side.drain(stream):
            output[chunk.stream] += chunk.data
        return {**plain(stream.result), **{name: data.decode() for name, data in output.items()}}

    def do_set_network(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.set_network, args)

    def do_allow_network(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.allow_network, *args["entries"])

    def do_follow_network_log(self, session: Any, args: dict[str, Any]) -> Any:
        count = args.pop("count")
        return self.side.take(session.follow_network_log(**args), count)

    def do_write(self, session: Any, args: dict[str, Any]) -> Any:
        data = base64.b64decode(args.pop("base64")) if "base64" in args else args.pop("text")
        return self.call(session.write, data=data, **args)

    def do_read(self, session: Any, args: dict[str, Any]) -> Any:
        return {"base64": base64.b64encode(self.call(session.read, **args)).decode()}

    def do_glob(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.glob, **args).entries

    def do_grep(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.grep, **args).matches

    def do_move(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.move, args.pop("from"), **args)

    def do_copy(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.copy, args.pop("from"), **args)

    def do_upload(self, session: Any, args: dict[str, Any]) -> Any:
        with tempfile.NamedTemporaryFile() as file:
            file.write((args["text"] * args["repeat"]).encode())
            file.flush()
            return self.call(session.upload, file.name, args["path"])

    def do_upload_files(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.upload_files, **args)

    def do_download(self, session: Any, args: dict[str, Any]) -> Any:
        with tempfile.NamedTemporaryFile() as file:
            size = self.call(session.download, args["path"], file.name)
            return {"size": size, "sha256": hashlib.sha256(file.read()).hexdigest()}

    def do_run_process(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.processes.run, **args)

    def do_run_told(self, session: Any, args: dict[str, Any]) -> Any:
        told = {"told_stdout": "", "told_stderr": ""}

        def on_stdout(text: str) -> None:
            told["told_stdout"] += text

        def on_stderr(text: str) -> None:
            told["told_stderr"] += text

        result = self.call(session.processes.run, on_stdout=on_stdout, on_stderr=on_stderr, **args)
        return {**plain(result), **told}

    def do_start_process(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.processes.start, **args)

    def do_list_processes(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.processes.list)

    def do_run_code(self, session: Any, args: dict[str, Any]) -> Any:
        return self.ran(self.call(session.run_code, **args))

    def do_run_code_told(self, session: Any, args: dict[str, Any]) -> Any:
        told: dict[str, list[str]] = {"stdout": [], "stderr": [], "results": [], "updates": [], "errors": []}
        started: list[tuple[str, str]] = []
        clears: list[None] = []
        run = self.call(
            session.run_code,
            **args,
            on_start=lambda *ids: started.append(ids),
            on_stdout=told["stdout"].append,
            on_stderr=told["stderr"].append,
            on_result=lambda result: told["results"].append(result.text),
            on_update=lambda result: told["updates"].append(result.text),
            on_clear=lambda: clears.append(None),
            on_error=lambda error: told["errors"].append(error.name),
        )
        joined = {name: "".join(told[name]) for name in ("stdout", "stderr")}
        seen = {"started": started == [(run.context_id, run.run_id)], "clears": len(clears)}
        return {**self.ran(run), "told": {**told, **joined, **seen}}

    def do_create_context(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.create_context, **args).info

    def do_list_contexts(self, session: Any, args: dict[str, Any]) -> Any:
        return [context.info for context in self.call(session.contexts)]

    def do_run_in_context(self, session: Any, args: dict[str, Any]) -> Any:
        return self.ran(self.call(session.context(args["context"]).run, args["code"]))

    def do_get_run(self, session: Any, args: dict[str, Any]) -> Any:
        return self.ran(self.call(session.context(args["context"]).get_run, args["run_id"]))

    def do_restart_context(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.context(args["context"]).restart)

    def do_delete_context(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.context(args["context"]).delete)

    def ran(self, run: Any) -> Any:
        png = None if run.png is None else base64.b64encode(run.png).decode()
        return {**plain(run), "text": run.text, "png": png}

    def do_list_ports(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.ports.list)

    def do_create_preview(self, session: Any, args: dict[str, Any]) -> Any:
        return self.call(session.ports.preview, **args)

    def do_fetch_port(self, session: Any, args: dict[str, Any]) -> Any:
        response = self.call(session.ports.fetch, **args)
        return {"status": response.status_code, "body": response.text}

    def do_write_stdin(self, process: Any, args: dict[str, Any]) -> Any:
        return self.call(process.write_stdin, args["text"])

    def do_process_output(self, process: Any, args: dict[str, Any]) -> Any:
        return self.call(process.output, **args)

    def fill(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self.fill(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.fill(item) for item in value]
        if not isinstance(value, str):
            return value
        if whole := REFERENCE.fullmatch(value):
            return self.lookup(whole[1])
        return REFERENCE.sub(lambda m: str(self.lookup(m[1])), value)

    def lookup(self, path: str) -> Any:
        value: Any = self.results
        for name in path.split("."):
            value = value[name]
        return value


def plain(value: Any) -> Any:
    """A result as the API's JSON would have it."""
    if isinstance(value, (sandkasten.Process, sandkasten.SyncProcess)):
        return {"exec_id": value.id, "pid": value.pid}
    if hasattr(value, "info") and not dataclasses.is_dataclass(value):
        return plain(value.info)
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


PATTERNS = {
    "$matches": lambda want, got: isinstance(got, str) and re.search(want, got) is not None,
    "$contains": lambda want, got: isinstance(got, str) and want in got,
    "$length": lambda want, got: len(got) == want,
    "$at_least": lambda want, got: got is not None and got >= want,
    "$has": lambda want, got: any(match(want, item) for item in got),
    "$lacks": lambda want, got: not any(match(want, item) for item in got),
}


def match(want: Any, got: Any) -> bool:
    if isinstance(want, dict):
        for name, pattern in PATTERNS.items():
            if name in want:
                return pattern(want[name], got)
        return isinstance(got, dict) and all(match(item, got.get(name)) for name, item in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and len(want) == len(got) and all(map(match, want, got))
    return (type(want) is type(got) and want == got) or (want == got and not isinstance(want, bool))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_contract(case: dict[str, Any], side: Any, daemon: str) -> None:
    run = Case(side)
    try:
        for step in case["steps"]:
            run.run(step)
    finally:
        run.clean()
