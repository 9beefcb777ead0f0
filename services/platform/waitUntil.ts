/** `waitUntil` of `cloudflare:workers`: work that continues after the answer. */
import { callingAgent } from "../node/AsyncAmbient.ts";
import { reportRejection } from "./bindPlatform.ts";

/**
 * In an agent's code: as `ctx.waitUntil`, which keeps the agent in memory. In a module's `fetch`: a
 * rejection is logged, not thrown.
 */
export function waitUntil(promise: Promise<unknown>): void {
  const agent = callingAgent();
  if (agent !== undefined) agent.waitUntil(promise);
  else Promise.resolve(promise).catch(reportRejection);
}
