export { SandboxClient, type ClientOptions } from "./client.js";
export {
  APIError,
  AlreadyExistsError,
  AuthenticationError,
  ConflictError,
  ConnectionError,
  type ErrorDetails,
  type Reason,
  InsufficientSpaceError,
  InternalError,
  InvalidArgumentError,
  NotFoundError,
  PermissionDeniedError,
  PreconditionFailedError,
  RateLimitError,
  SandkastenError,
  UnavailableError,
  UnimplementedError,
  UnprocessableError,
} from "./errors.js";
export { CodeContext, CodeRun } from "./contexts.js";
export { Files, type UploadData } from "./files.js";
export { Ports } from "./ports.js";
export { Process, Processes } from "./process.js";
export { Session } from "./session.js";
export type { WebSocketConstructor, WebSocketLike } from "./socket.js";
export { Terminal } from "./terminal.js";
export type { Tunnel } from "./tunnel.js";
export type * from "./types.js";
