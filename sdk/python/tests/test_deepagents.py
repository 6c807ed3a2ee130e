"""The public suite of langchain-tests for sandboxes, as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("deepagents", reason="deepagents needs Python 3.11")

from langchain_tests.integration_tests import SandboxIntegrationTests
from scripted import Scripted, process

from sandkasten import SyncSandboxClient
from sandkasten.deepagents import SandkastenSandbox


class TestSandkastenSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self, daemon: str) -> Iterator[SandkastenSandbox]:
        with SyncSandboxClient() as client, client.create_session(image="python") as session:
            yield SandkastenSandbox(session)


def test_a_command_has_no_more_time_than_the_daemon_allows() -> None:
    daemon = Scripted(processes=process(timed_out=True))
    with SyncSandboxClient("http://daemon", "key", transport=daemon, max_retries=0) as client:
        sandbox = SandkastenSandbox(client.create_session())
        said = [sandbox.execute("make", timeout=timeout).output for timeout in (None, 0, 5, 3600, 7200)]
    asked = [body.get("timeout_ms") for body in daemon.bodies("processes")]
    assert asked == [None, None, 5000, 600_000, 600_000]
    assert len(daemon.bodies("info")) == 1
    assert "default seconds" in said[0] and "its 5 seconds" in said[2] and "its 600 seconds" in said[3]
