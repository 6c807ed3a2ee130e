"""What can go wrong, as exceptions. All of them are a SandkastenError."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class SandkastenError(Exception):
    """The root of everything that this package raises on its own account."""


class ConfigurationError(SandkastenError):
    """The client was made with something missing or wrong."""


class ProtocolError(SandkastenError):
    """The answer is not one of Sandkasten's: something else listens at that address."""


class APIConnectionError(SandkastenError):
    """The daemon cannot be reached, or the connection broke before its answer was there.

    What was asked for may have happened, unless it says otherwise. Requests that may
    be repeated have been, before this is raised.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent
        """False if the daemon cannot have seen the request."""


class APITimeoutError(APIConnectionError):
    """No answer within the client's timeout."""


class APIError(SandkastenError):
    """The daemon refused the request or could not do it.

    There is a subclass for each code. A code that this version of the package does
    not know is a plain APIError.
    """

    code: str
    """What is wrong, for programs."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int | None = None,
        field: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        """What is wrong and what to do about it, for people."""
        self.code = code
        self.status = status
        """The HTTP status; None for an error that came in a stream."""
        self.field = field
        """The field of the request that is at fault, if one is."""
        self.reason = reason
        """More than code says, where there is more to tell apart: no_such_file, is_a_directory and so on.

        The values are those of the API's documentation.
        """
        self.request_id = request_id
        """Names the request in the daemon's log."""
        self.retry_after = retry_after
        """Seconds after which it may be worth another try, if the daemon said so."""


class InvalidArgumentError(APIError):
    """The request is wrong, or over a limit; the message says where."""


class AuthenticationError(APIError):
    """No valid key."""


class PermissionDeniedError(APIError):
    """This image, path, Host or Origin is not allowed."""


class NotFoundError(APIError):
    """There is no such thing, or it belongs to another key."""


class ConflictError(APIError):
    """The state does not allow it now: the session has ended, for example."""


class AlreadyExistsError(ConflictError):
    """The name is taken."""


class PreconditionFailedError(ConflictError):
    """The file is not the one that if_match names: another has changed it since."""


class UnprocessableError(APIError):
    """Understood, but impossible: a program that is not there, a text to edit that the file does not have."""


class RateLimitError(APIError):
    """Over a limit of rate or number."""


class InternalError(APIError):
    """The daemon's fault. Its log has the details under request_id."""


class UnimplementedError(APIError):
    """This daemon, or its driver, cannot do it."""


class UnavailableError(APIError):
    """Not now: the daemon is starting, the host has no room, or the sandbox does not answer."""


class InsufficientSpaceError(APIError):
    """A disk or quota is full."""


_CODES: Mapping[str, type[APIError]] = {
    "invalid_argument": InvalidArgumentError,
    "method_not_allowed": InvalidArgumentError,
    "length_required": InvalidArgumentError,
    "too_large": InvalidArgumentError,
    "unsupported_media_type": InvalidArgumentError,
    "range_not_satisfiable": InvalidArgumentError,
    "headers_too_large": InvalidArgumentError,
    "request_timeout": UnavailableError,
    "unauthenticated": AuthenticationError,
    "permission_denied": PermissionDeniedError,
    "not_found": NotFoundError,
    "conflict": ConflictError,
    "already_exists": AlreadyExistsError,
    "precondition_failed": PreconditionFailedError,
    "unprocessable": UnprocessableError,
    "resource_exhausted": RateLimitError,
    "internal": InternalError,
    "unimplemented": UnimplementedError,
    "unavailable": UnavailableError,
    "insufficient_space": InsufficientSpaceError,
}


def error_from_body(
    body: Any, *, status: int | None = None, headers: Mapping[str, str] | None = None
) -> APIError:
    """The exception for the JSON of an error."""
    headers = headers or {}
    if not isinstance(body, dict) or not isinstance(body.get("code"), str):
        body = {
            "code": f"http_{status}",
            "error": f"HTTP status {status}, with an answer that is not Sandkasten's",
        }
    code = body["code"]
    return _CODES.get(code, APIError)(
        str(body.get("error", code)),
        code=code,
        status=status,
        field=body.get("field"),
        reason=body.get("reason"),
        request_id=body.get("request_id") or headers.get("x-request-id"),
        retry_after=_seconds(headers.get("retry-after")),
    )


def error_from_response(status: int, headers: Mapping[str, str], content: bytes) -> APIError:
    """The exception for an answer whose status is an error."""
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    return error_from_body(body, status=status, headers=headers)


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdecimal() else None
