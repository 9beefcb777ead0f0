/**
 * The final close of a connection, and the test for it. A server ends a connection for good with
 * 1008 (policy) or an application code of 4000-4999; after every other code the client reconnects.
 */

/** The WebSocket standard's "policy violation". */
const POLICY_VIOLATION = 1008;
/** The range that the WebSocket standard leaves to applications. */
const APPLICATION_CODE_MIN = 4000;
const APPLICATION_CODE_MAX = 4999; // the end of that range

/** The part of a close event that says why a connection ended. */
export type CloseFacts = Pick<CloseEvent, "code" | "reason" | "wasClean">;

/**
 * The connection closed and will not reconnect: a final close code, a false result of
 * `shouldReconnectOnClose`, or `maxRetries` attempts.
 */
export class AgentConnectionError extends Error {
  override readonly name = "AgentConnectionError";
  /** The WebSocket close code; 1006 if the server sent none, as when it can't be reached. */
  readonly code: number;
  /** The close reason; may be empty. */
  readonly reason: string;
  /** Whether the close handshake completed. */
  readonly wasClean: boolean;

  constructor({ code, reason, wasClean }: CloseFacts) {
    const why = reason === "" ? "" : `: ${reason}`;
    super(`The agent's connection closed with code ${code}${why}; it will not be opened again`);
    this.code = code;
    this.reason = reason;
    this.wasClean = wasClean;
  }
}

/** Whether a close tells the client not to reconnect: code 1008 or 4000-4999. */
export const isTerminalCloseEvent = ({ code }: Pick<CloseEvent, "code">): boolean =>
  code === POLICY_VIOLATION || (code >= APPLICATION_CODE_MIN && code <= APPLICATION_CODE_MAX);
