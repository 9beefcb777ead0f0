/**
 * Makes the calls that agent code makes through stubs wait for the commits before them, as its
 * `fetch` does (`gatedFetch`): another agent must not act on a write that a crash could still undo.
 */
import type { CallClient } from "../../core/call/CallClient.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { asyncAmbient } from "./AsyncAmbient.ts";

/** Outside of a turn (a gateway, a worker's `fetch`) calls do not wait. */
export const gatedCalls = (calls: Pick<CallClient, "call">): Pick<CallClient, "call"> => ({
  call: async (...args) => {
    const owner = asyncAmbient.current()?.owner;
    // A destroyed agent has nothing left to commit.
    if (owner instanceof ActiveAgent && !owner.destroyed) await owner.flush();
    return calls.call(...args);
  },
});
