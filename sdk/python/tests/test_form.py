"""Several files in one request."""

from __future__ import annotations

import email
import email.policy
from pathlib import Path

import pytest

from sandkasten._form import Form
from sandkasten._sync.files import form_pieces


def received(form: Form) -> list[tuple[str | None, str | None, bytes]]:
    """The parts of a form as a server reads them: name, file name and content."""
    body = b"".join(form_pieces(form))
    assert len(body) == form.size
    head = f"Content-Type: {form.content_type}\r\n\r\n".encode()
    message = email.message_from_bytes(head + body, policy=email.policy.HTTP)
    return [
        (p.get_param("name", header="content-disposition"), p.get_filename(), p.get_payload(decode=True))
        for p in message.iter_parts()
    ]


def test_texts_bytes_and_local_files(tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.write_bytes(b"\x00\xff" * 300_000)
    form = Form({'a "b" \\.txt': "grüße", "bytes": b"\r\n--", "of a file": local, "empty": b""}, "in/")
    wanted = [
        ("path", None, b"in/"),
        ("files", 'a "b" \\.txt', "grüße".encode()),
        ("files", "bytes", b"\r\n--"),
        ("files", "of a file", local.read_bytes()),
        ("files", "empty", b""),
    ]
    for _ in range(2):  # it can be sent again
        assert received(form) == wanted


@pytest.mark.parametrize("name", ["", "a/b", "a\r\nX: y", "a\0"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match="to upload"):
        Form({name: "x"}, None)
