/**
 * Maps the SDK's errors to the port's, by class and code. The text is the server's or the SDK's,
 * bounded like all text of a stranger's server (`errorText`).
 */
import {
  OAuthError,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
import { errorText } from "../../core/mcp/errorText.ts";
import { McpRequestFailed } from "../../core/mcp/McpClients.ts";
import { BlockedAddress } from "./addressGuard.ts";

/**
 * Statuses for an unknown session, where there is one: 404 by the specification, 400 by many
 * servers, among them the protocol's reference server. The request was not processed.
 */
const NO_SESSION = new Set([400, 404]);

/** The server requires a user's consent, and the provider has the URL for it. */
export const isUnauthorized = (error: unknown): boolean =>
  UnauthorizedError.isInstance(error) ||
  (SdkHttpError.isInstance(error) && error.code === SdkErrorCode.ClientHttpAuthentication);

/** Maps an error of a request. `hasSession`: it was sent in a session, which may be lost. */
export function requestFailed(error: unknown, hasSession = false): McpRequestFailed {
  if (error instanceof McpRequestFailed) return error; // the provider's
  const message = errorText(messageOf(error));
  if (isUnauthorized(error)) return new McpRequestFailed({ reason: "Unauthorized", message });
  if (ProtocolError.isInstance(error))
    return new McpRequestFailed({ reason: "Answered", message, code: error.code });
  if (hasSession && SdkHttpError.isInstance(error) && NO_SESSION.has(error.status))
    return new McpRequestFailed({ reason: "SessionLost", message });
  if (SdkError.isInstance(error) && error.code === SdkErrorCode.RequestTimeout)
    return new McpRequestFailed({
      reason: "Timeout",
      message: `The server did not answer in time: ${message}`,
    });
  if (SdkError.isInstance(error) && error.code === SdkErrorCode.InvalidResult)
    return new McpRequestFailed({ reason: "Answered", message: `The server's answer does not follow the protocol: ${message}` }); // prettier-ignore
  const blocked =
    error instanceof BlockedAddress || (error as Error).cause instanceof BlockedAddress;
  return new McpRequestFailed({ reason: blocked ? "Refused" : "Closed", message });
}

function messageOf(error: unknown): string {
  if (OAuthError.isInstance(error)) return `OAuth: ${error.code}: ${error.message}`;
  if (!(error instanceof Error)) return String(error);
  // A failed connection to several addresses has no message of its own.
  if (error instanceof AggregateError && error.message === "") return error.errors.map(messageOf).join("; "); // prettier-ignore
  return error.message || error.name;
}
