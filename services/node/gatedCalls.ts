/**
 * Makes the calls that agent code makes through stubs wait for the commits before them, as its
 * `fetch` does (`gatedFetch`): another agent must not act on a write that a crash could still undo.
 * A call is cancelled when nobody waits for the turn that makes it any more. So do sockets that
 * agent code opens; they are its agent's.
 */
import type { CallClient } from "../../core/call/CallClient.ts";
import type { StubCalls, StubSockets } from "../../core/namespace/stubTarget.ts";
import { firstOf, type Abortable } from "../../core/lazyFetch/AbortSource.ts";
import type { ProcessTargets } from "../../core/runtime/ProcessTargets.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { holderOf } from "../../core/runtime/holderOf.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import { asyncAmbient } from "./AsyncAmbient.ts";

/** Outside of a turn (a gateway, a worker's `fetch`) calls do not wait. */
export const gatedCalls = (
  calls: Pick<CallClient, "call">,
  sockets?: StubSockets,
  targets?: Pick<ProcessTargets, "lend">,
): StubCalls => ({
  call: async (id, call, options) => {
    const turn = await flushed();
    return calls.call(id, call, turn === undefined ? options : cancelledWith(turn, options));
  },
  ...(sockets === undefined ? {} : { sockets: gatedSockets(sockets) }),
  ...(targets === undefined ? {} : { lend: (target) => targets.lend(target) }),
  callingTurn: () => {
    const seen = asyncAmbient.current();
    if (!(seen?.owner instanceof ActiveAgent)) return undefined;
    const { lent } = seen.owner.keeping;
    const turn = seen.step?.turn ?? seen;
    return { lend: (target) => lent.lend(target), atEnd: (f) => turn.atEnd(f) };
  },
});

const gatedSockets = (sockets: StubSockets): StubSockets => ({
  connect: async (id, upgrade) => {
    const turn = await flushed();
    return sockets.connect(id, turn === undefined ? upgrade : cancelledWith(turn, upgrade));
  },
  holder: () => {
    const owner = asyncAmbient.current()?.owner;
    return owner instanceof ActiveAgent ? holderOf(owner) : sockets.holder();
  },
});

/** The turn whose code runs, when what it has written is stored; undefined outside of one. */
async function flushed(): Promise<Turn | undefined> {
  const turn = asyncAmbient.current();
  if (!(turn?.owner instanceof ActiveAgent)) return undefined;
  // A destroyed agent has nothing left to commit.
  if (!turn.owner.destroyed) await turn.owner.flush();
  return turn;
}

const cancelledWith = <A extends { readonly abort?: Abortable | undefined }>(
  { abort }: Turn,
  options: A,
): A => ({
  ...options,
  abort: options.abort === undefined ? abort : firstOf(abort, options.abort),
});
