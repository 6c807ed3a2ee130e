/** The base of all errors of this package. An aborted call throws its signal's reason instead. */
export class SandkastenError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** There was no answer, or it broke off. `cause` says more. Whether the request was carried out is not known. */
export class ConnectionError extends SandkastenError {}

/** Why, for programs. There may be others in time. */
export type Reason =
  | "no_such_file"
  | "file_exists"
  | "file_changed"
  | "is_a_directory"
  | "not_a_directory"
  | "directory_not_empty"
  | "not_a_regular_file"
  | "permission_denied"
  | "read_only"
  | "outside_workspace"
  | "program_not_found"
  | "not_executable"
  | "no_such_user"
  | "text_not_found"
  | "text_not_unique"
  | "no_such_session"
  | "no_such_image"
  | "no_such_workspace"
  | "no_such_snapshot"
  | "no_such_secret"
  | "no_such_exec"
  | "no_such_shell"
  | "no_such_context"
  | "no_such_run"
  | "no_kernel"
  | "quota_exceeded"
  | (string & {});

/** What an error says beside its message. */
export interface ErrorDetails {
  /** The HTTP status. */
  status: number;
  /** For programs: it stays while messages change. */
  code: string;
  /** The field of the request that is at fault. */
  field?: string;
  /** More than `code` says, where there is more to tell apart. */
  reason?: Reason;
  /** The daemon's log has more under this id. */
  requestId?: string;
  /** Seconds after which to try again. */
  retryAfter?: number;
}

/** The daemon answered with an error. */
export class APIError extends SandkastenError implements ErrorDetails {
  readonly status: number;
  readonly code: string;
  readonly field?: string;
  readonly reason?: Reason;
  readonly requestId?: string;
  readonly retryAfter?: number;

  constructor(message: string, details: ErrorDetails) {
    super(message);
    this.status = details.status;
    this.code = details.code;
    if (details.field !== undefined) this.field = details.field;
    if (details.reason !== undefined) this.reason = details.reason;
    if (details.requestId !== undefined) this.requestId = details.requestId;
    if (details.retryAfter !== undefined) this.retryAfter = details.retryAfter;
  }
}

/** The request is wrong; `field` says where. */
export class InvalidArgumentError extends APIError {}
/** No valid API key. */
export class AuthenticationError extends APIError {}
/** This image, path or host is not allowed. */
export class PermissionDeniedError extends APIError {}
/** There is no such thing, or it belongs to another key. */
export class NotFoundError extends APIError {}
/** The state does not allow it now. */
export class ConflictError extends APIError {}
/** The name is taken. */
export class AlreadyExistsError extends ConflictError {}
/** The file is not the one that `ifMatch` names: another has changed it since. */
export class PreconditionFailedError extends ConflictError {}
/** Understood, but impossible with this content. */
export class UnprocessableError extends APIError {}
/** Over a limit of rate or number; see `retryAfter`. */
export class RateLimitError extends APIError {}
/** The daemon's fault. */
export class InternalError extends APIError {}
/** This daemon cannot do it. */
export class UnimplementedError extends APIError {}
/** Not now; see `retryAfter`. */
export class UnavailableError extends APIError {}
/** A disk or quota is full. */
export class InsufficientSpaceError extends APIError {}

/** The status and class of each code. */
const codes: Record<string, [number, typeof APIError]> = {
  invalid_argument: [400, InvalidArgumentError],
  unauthenticated: [401, AuthenticationError],
  permission_denied: [403, PermissionDeniedError],
  not_found: [404, NotFoundError],
  request_timeout: [408, UnavailableError],
  method_not_allowed: [405, InvalidArgumentError],
  conflict: [409, ConflictError],
  already_exists: [409, AlreadyExistsError],
  precondition_failed: [412, PreconditionFailedError],
  length_required: [411, InvalidArgumentError],
  too_large: [413, InvalidArgumentError],
  unsupported_media_type: [415, InvalidArgumentError],
  range_not_satisfiable: [416, InvalidArgumentError],
  headers_too_large: [431, InvalidArgumentError],
  unprocessable: [422, UnprocessableError],
  resource_exhausted: [429, RateLimitError],
  internal: [500, InternalError],
  unimplemented: [501, UnimplementedError],
  unavailable: [503, UnavailableError],
  insufficient_space: [507, InsufficientSpaceError],
};

/** apiError makes the error that a body describes. Without a status, which events have none of, it is that of the code. */
export function apiError(body: unknown, status?: number, retryAfter?: string | null): APIError {
  const said = typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  const text = (name: string) => (typeof said[name] === "string" ? said[name] : undefined);
  const code = text("code") ?? "";
  const known = Object.hasOwn(codes, code) ? codes[code] : Object.values(codes).find(([s]) => s === status);
  const details: ErrorDetails = { status: status ?? known?.[0] ?? 500, code };
  const field = text("field");
  if (field !== undefined) details.field = field;
  const reason = text("reason");
  if (reason !== undefined) details.reason = reason;
  const requestId = text("request_id");
  if (requestId !== undefined) details.requestId = requestId;
  const seconds = retryAfter ? Number(retryAfter) : NaN;
  if (seconds >= 0) details.retryAfter = seconds;
  const type = known?.[1] ?? APIError;
  return new type(text("error") ?? `the daemon answered with status ${details.status}`, details);
}
