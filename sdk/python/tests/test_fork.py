"""Forks, which sdk/contract does not have yet."""

from __future__ import annotations

from typing import Any


def test_forks_begin_with_the_files_of_their_session(side: Any, daemon: str) -> None:
    client = side.client()
    made = [side.call(client.create_session, image="base", labels={"a": "b"})]
    try:
        side.call(made[0].write, "kept", "from the first")
        made += side.call(made[0].fork, 2, labels={"fork": "yes"})
        assert len({session.id for session in made}) == 3
        for fork in made[1:]:
            assert fork.info.labels == {"fork": "yes"}
            assert side.call(fork.read_text, "kept") == "from the first"
        side.call(made[1].write, "kept", "changed")
        assert side.call(made[2].read_text, "kept") == "from the first"
    finally:
        for session in made:
            side.call(session.destroy)
        side.call(getattr(client, "aclose", None) or client.close)
