/** The SDK's errors as the port's, by class and code. The text is the server's or the SDK's, for people. */
import {
  OAuthError,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
import { McpRequestFailed, type McpConnection } from "../../core/mcp/McpClients.ts";
import { BlockedAddress } from "./addressGuard.ts";

/**
 * How servers say that they do not know a session: 404 by the specification, 400 by many, the protocol's
 * reference server among them. Either way the request was not looked at.
 */
const NO_SESSION = new Set([400, 404]);

/** The server wants a user's consent, and the provider was told where that is given. */
export const isUnauthorized = (error: unknown): boolean =>
  UnauthorizedError.isInstance(error) ||
  (SdkHttpError.isInstance(error) && error.code === SdkErrorCode.ClientHttpAuthentication);

/** `transport`, where a session was begun: it may be gone. */
export function requestFailed(
  error: unknown,
  transport?: McpConnection["transport"],
): McpRequestFailed {
  const message = messageOf(error);
  if (isUnauthorized(error)) return new McpRequestFailed({ reason: "Unauthorized", message });
  if (ProtocolError.isInstance(error))
    return new McpRequestFailed({ reason: "Answered", message, code: error.code });
  if (
    SdkHttpError.isInstance(error) &&
    NO_SESSION.has(error.status) &&
    transport === "streamable-http"
  )
    return new McpRequestFailed({ reason: "SessionLost", message });
  if (SdkError.isInstance(error) && error.code === SdkErrorCode.RequestTimeout)
    return new McpRequestFailed({
      reason: "Timeout",
      message: `The server did not answer in time: ${message}`,
    });
  if (SdkError.isInstance(error) && error.code === SdkErrorCode.InvalidResult)
    return new McpRequestFailed({ reason: "Answered", message: `The server's answer is not the protocol's: ${message}` }); // prettier-ignore
  const blocked =
    error instanceof BlockedAddress || (error as Error).cause instanceof BlockedAddress;
  return new McpRequestFailed({ reason: blocked ? "Refused" : "Closed", message });
}

function messageOf(error: unknown): string {
  if (OAuthError.isInstance(error)) return `OAuth: ${error.code}: ${error.message}`;
  if (!(error instanceof Error)) return String(error);
  // Errors of connecting to several addresses have no message of their own.
  if (error instanceof AggregateError && error.message === "") return error.errors.map(messageOf).join("; "); // prettier-ignore
  return error.message || error.name;
}
