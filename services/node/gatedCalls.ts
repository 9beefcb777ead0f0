/**
 * Makes the calls that agent code makes through stubs wait for the commits before them, as its
 * `fetch` does (`gatedFetch`): another agent must not act on a write that a crash could still undo.
 * A call is cancelled when nobody waits for the turn that makes it any more.
 */
import type { CallClient, CallOptions } from "../../core/call/CallClient.ts";
import type { StubCalls } from "../../core/namespace/stubTarget.ts";
import { firstOf } from "../../core/lazyFetch/AbortSource.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import { asyncAmbient } from "./AsyncAmbient.ts";

/** Outside of a turn (a gateway, a worker's `fetch`) calls do not wait. */
export const gatedCalls = (calls: Pick<CallClient, "call">): StubCalls => ({
  call: async (id, call, options) => {
    const turn = asyncAmbient.current();
    if (!(turn?.owner instanceof ActiveAgent)) return calls.call(id, call, options);
    // A destroyed agent has nothing left to commit.
    if (!turn.owner.destroyed) await turn.owner.flush();
    return calls.call(id, call, cancelledWith(turn, options));
  },
  callingTurn: () => {
    const seen = asyncAmbient.current();
    if (!(seen?.owner instanceof ActiveAgent)) return undefined;
    const { lent } = seen.owner.keeping;
    const turn = seen.step?.turn ?? seen;
    return {
      lend: (target) => lent.lend(target),
      atEnd: (f) => turn.atEnd(f),
    };
  },
});

const cancelledWith = ({ abort }: Turn, options: CallOptions): CallOptions => ({
  ...options,
  abort: options.abort === undefined ? abort : firstOf(abort, options.abort),
});
