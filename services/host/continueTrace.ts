/**
 * Runs a call's turn as part of its caller's trace, which the call or, for a request, a header
 * names. In a process that is not traced it only runs it.
 */
import type { AmbientShape } from "../../core/turn/Ambient.ts";
import type { AgentCall } from "../../schemas/bus/Call.ts";

export function continueTrace<A>(
  { continuing }: Pick<AmbientShape, "continuing">,
  call: AgentCall,
  f: () => A,
): A {
  const traceparent = continuing && traceparentOf(call);
  return traceparent === undefined ? f() : continuing!(traceparent, f);
}

const traceparentOf = (call: AgentCall): string | undefined =>
  call.traceparent ??
  ("headers" in call ? call.headers.find(([name]) => name === "traceparent")?.[1] : undefined);
