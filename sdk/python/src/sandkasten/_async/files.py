"""Files of a session or of a workspace."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from datetime import datetime
from typing import Any, Literal

import anyio

from .. import _core
from .._core import Body, Patience, Request
from .._decode import decode
from .._errors import APIConnectionError, APIError, ConflictError, InvalidArgumentError
from .._form import FileData, Form
from .._models import (
    EditResult,
    FileEntry,
    FilePage,
    FileStat,
    GlobResult,
    GrepResult,
    Unpacked,
    Uploaded,
    Written,
)
from .transport import Transport

ArchiveFormat = Literal["tar", "tar.gz", "tar.zst", "zip"]
Entries = list[FileEntry]
Paths = list[str]

_PIECE = 256 * 1024


class Files:
    """The file calls. Paths are absolute or start at /workspace."""

    def __init__(self, transport: Transport, path: str) -> None:
        self._transport = transport
        self._path = path
        self._user: str | None = None

    def files_as(self, user: str) -> Files:
        """The file calls with the rights of a user of the sandbox, to whom belongs what they make.

        user is a name or a number, with :group if wanted.
        """
        files = Files(self._transport, self._path)
        files._user = user
        return files

    async def read(self, path: str, *, offset: int | None = None, max_bytes: int | None = None) -> bytes:
        """The bytes of a file, or max_bytes of them from offset on: fewer where the file ends before."""
        if max_bytes == 0:
            return b""
        headers: dict[str, str] = {}
        if offset is not None or max_bytes is not None:
            first = offset or 0
            headers["Range"] = f"bytes={first}-" + ("" if max_bytes is None else str(first + max_bytes - 1))
        try:
            return await self._transport.content(self._read_request(path, headers))
        except InvalidArgumentError as err:
            if err.code == "range_not_satisfiable":
                return b""  # the file ends before
            raise

    async def read_text(self, path: str, *, encoding: str = "utf-8", errors: str = "strict") -> str:
        """A file as text; UnicodeDecodeError if it is none."""
        return (await self.read(path)).decode(encoding, errors)

    async def read_stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """The bytes of a file of any size, piece by piece.

        Where the connection breaks the rest is asked for; ConflictError if the file has
        changed since.
        """
        seen, patience = 0, Patience(self._transport.settings)
        etag: str | None = None
        while True:
            headers = _rest(seen, etag)
            request = self._read_request(path, headers)
            try:
                async with self._transport.stream(request) as response:
                    if headers and response.status_code != 206:
                        raise ConflictError(f"{path} has changed while it was read", code="conflict")
                    etag = response.headers.get("etag")
                    async for piece in response.aiter_bytes():
                        seen += len(piece)
                        patience.progress()
                        yield piece
                return
            except APIConnectionError as err:
                if seen and not etag:
                    raise
                await self._transport.before_resuming(patience, request, err)

    async def download(self, path: str, local: str | os.PathLike[str]) -> int:
        """Copies a file of any size to a local one, and returns its size."""
        size = 0
        async with await anyio.open_file(local, "wb") as out:
            async for piece in self.read_stream(path):
                size += await out.write(piece)
        return size

    async def write(
        self,
        path: str,
        data: str | bytes,
        *,
        mode: str | None = None,
        create: bool | None = None,
        append: bool | None = None,
        modified_at: datetime | None = None,
        if_match: str | None = None,
    ) -> str | None:
        """Replaces or makes a file, and its directories, atomically.

        mode is octal, as "0755". create refuses to replace a file (AlreadyExistsError),
        append adds to its end, which is not atomic. modified_at is the time that the file
        gets, instead of now. if_match, an etag of stat or of an earlier
        write, refuses to replace a file that was changed since (PreconditionFailedError); the
        result is then the etag of what was written.
        """
        body = data.encode() if isinstance(data, str) else data
        options = {"mode": mode, "create": create, "append": append, "modified_at": _time(modified_at)}
        return await self._put(path, body, len(body), if_match, **options)

    async def upload(
        self,
        local: str | os.PathLike[str],
        path: str,
        *,
        mode: str | None = None,
        create: bool | None = None,
        append: bool | None = None,
        modified_at: datetime | None = None,
        if_match: str | None = None,
    ) -> str | None:
        """Copies a local file of any size into the sandbox. The rest is as for write."""
        size = os.stat(local).st_size
        options = {"mode": mode, "create": create, "append": append, "modified_at": _time(modified_at)}
        return await self._put(path, lambda: pieces(local), size, if_match, **options)

    async def upload_files(self, files: Mapping[str, FileData], path: str | None = None) -> Paths:
        """Writes files, given by their names, in one request, and returns their paths.

        What is in one is text, bytes, or a local file (a `pathlib.Path`). With several path is
        their directory. With one it is the file's path, unless it ends in a slash, is a
        directory, or is nothing yet and has no extension while the file has one. Without path
        they go to /workspace. Each is written atomically, and none before all have arrived.
        """
        form = Form(files, path)
        request = Request(
            method="POST",
            path=f"{self._path}/fs/upload",
            query=self._as({}),
            body=lambda: form_pieces(form),
            headers={"Content-Type": form.content_type, "Content-Length": str(form.size)},
            wait=True,
        )
        return decode(Uploaded, await self._transport.json(request)).paths

    async def list(self, path: str = ".", *, depth: int | None = None) -> Entries:
        """All that is in a directory; depth=2 also what is in those in it, depth=-1 everything below."""
        entries: Entries = []
        cursor: str | None = None
        while True:
            query = {"path": path, "depth": depth, "cursor": cursor}
            page = decode(FilePage, await self._get("list", query))
            entries += page.entries
            if not page.truncated or not page.next_cursor:
                return entries
            cursor = page.next_cursor

    async def stat(self, path: str, *, follow: bool | None = None) -> FileStat:
        """What is known of one file of any kind; a link itself, unless follow is true."""
        return decode(FileStat, await self._get("stat", {"path": path, "follow": follow}))

    async def exists(self, path: str) -> bool:
        """Whether there is anything of this name. A link counts, wherever it leads."""
        try:
            await self.stat(path)
        except APIError as err:
            if err.reason not in {"no_such_file", "not_a_directory"}:
                raise
            return False
        return True

    async def make_dir(self, path: str, *, mode: str | None = None, parents: bool | None = None) -> None:
        """Makes a directory. With parents it may be there, and those above it are made."""
        await self._change("mkdir", {"path": path, "mode": mode, "parents": parents})

    async def move(self, origin: str, to: str, *, overwrite: bool | None = None) -> None:
        """Renames in one step. to is the new path itself."""
        await self._change("move", {"from": origin, "to": to, "overwrite": overwrite})

    async def copy(
        self, origin: str, to: str, *, overwrite: bool | None = None, recursive: bool | None = None
    ) -> None:
        """Copies a file, or with recursive a directory. to is the new path itself."""
        body = {"from": origin, "to": to, "overwrite": overwrite, "recursive": recursive}
        await self._change("copy", body)

    async def remove(self, path: str, *, recursive: bool | None = None) -> None:
        """Removes a file, a link itself, an empty directory, or with recursive all that is in it."""
        await self._change("delete", {"path": path, "recursive": recursive})

    async def chmod(self, path: str, mode: str, *, recursive: bool | None = None) -> None:
        """Sets the mode, octal as "0755"."""
        await self._change("chmod", {"path": path, "mode": mode, "recursive": recursive})

    async def edit(self, path: str, old: str, new: str, *, count: int | None = None) -> EditResult:
        """Replaces a text wherever it is in a file, atomically.

        UnprocessableError, and nothing changes, if it is not there exactly count times,
        or without count not at all.
        """
        body = {"path": path, "old": old, "new": new, "count": count}
        return decode(EditResult, await self._change("edit", body))

    async def glob(
        self, pattern: str, *, path: str | None = None, hidden: bool | None = None, limit: int | None = None
    ) -> GlobResult:
        """Files by name: `*`, `?`, `[a-z]`, `**` and `{a,b}`."""
        query = {"pattern": pattern, "path": path, "hidden": hidden, "limit": limit}
        return decode(GlobResult, await self._get("glob", query))

    async def grep(
        self,
        pattern: str,
        *,
        path: str | None = None,
        literal: bool | None = None,
        ignore_case: bool | None = None,
        include: str | None = None,
        hidden: bool | None = None,
        before: int | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> GrepResult:
        """Lines by their text, a regular expression in RE2's syntax unless literal is true."""
        query = {
            "pattern": pattern,
            "path": path,
            "literal": literal,
            "ignore_case": ignore_case,
            "include": include,
            "hidden": hidden,
            "before": before,
            "after": after,
            "limit": limit,
        }
        return decode(GrepResult, await self._get("grep", query))

    async def download_archive(
        self, path: str, local: str | os.PathLike[str], *, format: ArchiveFormat | None = None
    ) -> int:
        """Packs a directory into a local file, and returns the archive's size."""
        size = 0
        async with await anyio.open_file(local, "wb") as out:
            async for piece in self.archive_stream(path, format=format):
                size += await out.write(piece)
        return size

    async def read_archive(self, path: str, *, format: ArchiveFormat | None = None) -> bytes:
        """Packs a directory, and returns the archive."""
        return b"".join([piece async for piece in self.archive_stream(path, format=format)])

    async def archive_stream(
        self, path: str, *, format: ArchiveFormat | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Packs a directory, and gives the archive piece by piece.

        One that breaks raises APIConnectionError: what came until then is no archive.
        """
        query = self._as({"path": path, "format": format})
        request = Request(method="GET", path=f"{self._path}/fs/archive", query=query, safe=True)
        async with self._transport.stream(request) as response:
            async for piece in response.aiter_bytes():
                yield piece

    async def upload_archive(
        self, local: str | os.PathLike[str], path: str, *, format: ArchiveFormat | None = None
    ) -> Unpacked:
        """Unpacks a local archive into a directory, which is made if it is missing."""
        return await self._unpack(lambda: pieces(local), os.stat(local).st_size, path, format)

    async def write_archive(
        self,
        data: bytes | AsyncIterator[bytes],
        path: str,
        *,
        format: ArchiveFormat | None = None,
        size: int | None = None,
    ) -> Unpacked:
        """Unpacks an archive into a directory, which is made if it is missing.

        Of one that comes piece by piece the size has to be known, and it is sent once.
        """
        if isinstance(data, bytes):
            return await self._unpack(data, len(data), path, format)
        if size is None:
            raise TypeError("an archive that comes piece by piece needs its size")
        return await self._unpack(_core.once(data), size, path, format)

    async def _unpack(
        self, body: Body | bytes, size: int, path: str, format: ArchiveFormat | None
    ) -> Unpacked:
        request = Request(
            method="PUT",
            path=f"{self._path}/fs/archive",
            query=self._as({"path": path, "format": format}),
            body=body,
            headers=_octets(size),
            wait=True,
        )
        return decode(Unpacked, await self._transport.json(request))

    async def _put(
        self, path: str, body: Body | bytes, size: int, if_match: str | None, **options: Any
    ) -> str | None:
        headers = _octets(size)
        if if_match is not None:
            headers["If-Match"] = if_match
        request = Request(
            method="PUT",
            path=f"{self._path}/fs/raw",
            query=self._as({"path": path, **options}),
            body=body,
            headers=headers,
        )
        return decode(Written, await self._transport.json(request)).etag

    async def _get(self, name: str, query: dict[str, Any]) -> object:
        return await self._transport.json(
            Request(method="GET", path=f"{self._path}/fs/{name}", query=self._as(query), safe=True)
        )

    async def _change(self, name: str, body: dict[str, Any]) -> object:
        request = Request(
            method="POST", path=f"{self._path}/fs/{name}", query=self._as({}), json=_core.given(body)
        )
        return await self._transport.json(request)

    def _as(self, query: dict[str, Any]) -> dict[str, Any]:
        return {**query, "user": self._user}

    def _read_request(self, path: str, headers: dict[str, str]) -> Request:
        query = self._as({"path": path, "raw": True})
        return Request(method="GET", path=f"{self._path}/fs/read", query=query, headers=headers, safe=True)


def _rest(seen: int, etag: str | None) -> dict[str, str]:
    """Asks for what is behind the bytes that were seen, if the file is still the same."""
    return {"Range": f"bytes={seen}-", "If-Range": etag} if seen and etag else {}


def _time(at: datetime | None) -> str | None:
    """A time for a query. One without a zone is the local one, as everywhere in Python."""
    return None if at is None else at.astimezone().isoformat()


def _octets(size: int) -> dict[str, str]:
    return {"Content-Type": "application/octet-stream", "Content-Length": str(size)}


async def pieces(local: str | os.PathLike[str]) -> AsyncIterator[bytes]:
    """The bytes of a local file."""
    async with await anyio.open_file(local, "rb") as file:
        while piece := await file.read(_PIECE):
            yield piece


async def form_pieces(form: Form) -> AsyncIterator[bytes]:
    """The bytes of a form."""
    for part in form.parts:
        if isinstance(part, bytes):
            yield part
        else:
            async for piece in pieces(part):
                yield piece
