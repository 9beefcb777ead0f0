/**
 * Calls of agent code through stubs, as client spans of its turn. The called agent's turn continues
 * the trace.
 */
import type { CallClient } from "../../core/call/CallClient.ts";
import type { TracedPorts } from "./TracedPorts.ts";

/** Outside of a turn (a gateway, a worker's `fetch`) calls are passed on as they are. */
export const tracedCalls = (
  calls: Pick<CallClient, "call">,
  traced: Pick<TracedPorts, "current" | "child">,
): Pick<CallClient, "call"> => ({
  call: async (id, call, options) => {
    if (traced.current() === undefined) return calls.call(id, call, options);
    const method = "method" in call && call.kind !== "fetch" ? call.method : call.kind;
    const span = traced.child(`${id.class}/${method}`, {
      "rpc.system": "agents",
      "rpc.service": id.class,
      "rpc.method": method,
      "agents.name": id.name,
    });
    try {
      const result = await calls.call(id, { ...call, traceparent: span.traceparent }, options);
      span.end(result.reply.kind === "error" ? result.reply.message : undefined);
      return result;
    } catch (error) {
      span.end(error);
      throw error;
    }
  },
});
