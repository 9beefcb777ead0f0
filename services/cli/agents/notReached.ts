/**
 * The error for a command whose call no host has answered. Where the broker's login may not make
 * the call, a host is not what is missing. `refusedByHost` is for what a host has refused.
 */
import { AgentUnreachable, CallDenied } from "../../../core/call/AgentUnreachable.ts";
import { failed } from "../terminal/CliError.ts";

/** `advice`: what to do when the call was allowed. Returns any other error as it is. */
export function notReached(error: unknown, advice: string): unknown {
  if (error instanceof CallDenied) return failed(`${error.message}. Log in as the operator.`);
  return error instanceof AgentUnreachable ? failed(`${error.message}. ${advice}`) : error;
}
