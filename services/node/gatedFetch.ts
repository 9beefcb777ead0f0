/**
 * Makes the `fetch` of agent code wait for the commits before it: a request to the outside must not
 * depend on a write that a crash could still undo. This is the output gate for what the runtime
 * does not send itself.
 */
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { asyncAmbient } from "./AsyncAmbient.ts";

const GATED = Symbol.for("agents.gatedFetch");

/** Replaces the global `fetch`, once per process. Outside of a turn requests do not wait. */
export function installGatedFetch(): void {
  const plain = globalThis.fetch;
  if (GATED in plain) return;
  const gated = async (...args: Parameters<typeof fetch>): Promise<Response> => {
    const owner = asyncAmbient.current()?.owner;
    if (owner instanceof ActiveAgent) await owner.flush();
    return plain(...args);
  };
  globalThis.fetch = Object.assign(gated, { [GATED]: true });
}
