/**
 * The end of a connection that will not come back by itself, and which closes are one: a server says so
 * with 1008 (policy) or an application code of 4000-4999; every other code is an accident.
 */

/** The standard's "policy violation". */
const POLICY_VIOLATION = 1008;
/** The range that the WebSocket standard leaves to applications. */
const APPLICATION_CODE_MIN = 4000;
const APPLICATION_CODE_MAX = 4999; // the end of that range

type CloseFacts = Pick<CloseEvent, "code" | "reason" | "wasClean">;

/** Reconnecting is over: a final close code, `shouldReconnectOnClose`, or `maxRetries` spent. */
export class AgentConnectionError extends Error {
  override readonly name = "AgentConnectionError";
  readonly code: number;
  readonly reason: string;
  readonly wasClean: boolean;

  constructor({ code, reason, wasClean }: CloseFacts) {
    const why = reason === "" ? "" : `: ${reason}`;
    super(`The agent's connection closed with code ${code}${why}; it will not be opened again`);
    this.code = code;
    this.reason = reason;
    this.wasClean = wasClean;
  }
}

/** Does this close mean "do not come back"? */
export const isTerminalCloseEvent = ({ code }: Pick<CloseEvent, "code">): boolean =>
  code === POLICY_VIOLATION || (code >= APPLICATION_CODE_MIN && code <= APPLICATION_CODE_MAX);
