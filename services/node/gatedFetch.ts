/**
 * The `fetch` that agent code makes waits for the commits before it: a call to the outside must not
 * tell of a write that a crash could still undo (the output gate, for what the runtime does not send).
 */
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { asyncAmbient } from "./AsyncAmbient.ts";

const GATED = Symbol.for("agents.gatedFetch");

/** Replaces the global `fetch`, once per process; outside of a turn it is the platform's own. */
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
