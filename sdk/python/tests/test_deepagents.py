"""The public suite of langchain-tests for sandboxes, as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("deepagents", reason="deepagents needs Python 3.11")

from langchain_tests.integration_tests import SandboxIntegrationTests

from sandkasten import SyncSandboxClient
from sandkasten.deepagents import SandkastenSandbox


class TestSandkastenSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self, daemon: str) -> Iterator[SandkastenSandbox]:
        with SyncSandboxClient() as client, client.create_session(image="python") as session:
            yield SandkastenSandbox(session)
