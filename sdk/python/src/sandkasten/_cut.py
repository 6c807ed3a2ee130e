"""Output as agents need it: never more than they can read, and where the rest is."""

from __future__ import annotations

LIMIT = 16_000
"""Characters of output that a tool shows, if it is not told otherwise: about 4,000 tokens."""


def cut(text: str, limit: int = LIMIT, *, rest: str = "") -> str:
    """The text, or of one that is longer its head and tail with a line between.

    Both end at whole lines where that loses little. rest says where all of it is.
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    head, tail = text[:half], text[-half:]
    if (end := head.rfind("\n")) > half * 3 // 4:
        head = head[: end + 1]
    if -1 < (start := tail.find("\n")) < half // 4:
        tail = tail[start + 1 :]
    left_out = text[len(head) : len(text) - len(tail)]
    note = f"[... {len(left_out)} characters in {left_out.count(chr(10)) + 1} lines left out here{rest} ...]"
    return f"{head}{_newline(head)}{note}\n{tail}"


def _newline(text: str) -> str:
    return "" if text.endswith("\n") else "\n"
