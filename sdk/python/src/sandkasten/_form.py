"""Files as one multipart form."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from typing import Union

FileData = Union[str, bytes, "os.PathLike[str]"]
"""What is in a file: text, bytes, or that of a local file."""


class Form:
    """A form of files, and of the path that they go to.

    It is not made by httpx, which changes the quotes in a name for good.
    """

    def __init__(self, files: Mapping[str, FileData], path: str | None) -> None:
        boundary = uuid.uuid4().hex
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self.parts: list[bytes | os.PathLike[str]] = []
        """One behind the other: bytes, and local files."""
        if path is not None:
            head = f'--{boundary}\r\nContent-Disposition: form-data; name="path"\r\n\r\n'
            self.parts.append((head + path + "\r\n").encode())
        for name, data in files.items():
            if not re.fullmatch(r"[^/\r\n\0]+", name):
                raise ValueError(
                    f"the name {name!r} of a file to upload is empty or has a slash or a line's end in it: "
                    "give its directory apart, or use write"
                )
            quoted = re.sub(r'([\\"])', r"\\\1", name)
            disposition = f'form-data; name="files"; filename="{quoted}"'
            self.parts.append(f"--{boundary}\r\nContent-Disposition: {disposition}\r\n\r\n".encode())
            self.parts.append(data.encode() if isinstance(data, str) else data)
            self.parts.append(b"\r\n")
        self.parts.append(f"--{boundary}--\r\n".encode())
        self.size = sum(len(p) if isinstance(p, bytes) else os.stat(p).st_size for p in self.parts)
