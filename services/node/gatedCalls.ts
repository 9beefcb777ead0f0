/**
 * The calls that agent code makes by stubs wait for the commits before them, like its `fetch`
 * (`gatedFetch`): another agent must not act on a write that a crash could still undo.
 */
import type { CallClient } from "../../core/call/CallClient.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { asyncAmbient } from "./AsyncAmbient.ts";

/** Outside of a turn (a gateway, a worker's `fetch`) it is the client as it is. */
export const gatedCalls = (calls: CallClient): Pick<CallClient, "call"> => ({
  call: async (...args) => {
    const owner = asyncAmbient.current()?.owner;
    // A destroyed one has stored what it stored.
    if (owner instanceof ActiveAgent && !owner.destroyed) await owner.flush();
    return calls.call(...args);
  },
});
