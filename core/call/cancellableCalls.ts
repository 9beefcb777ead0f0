/**
 * Calls whose caller may leave before the answer, at both ends: `cancellable` names such a call and
 * notifies the host (`CallClient`), `runCancellable` is the agent's slot, which knows of the call
 * from its arrival to its answer: while the agent starts, waits or runs. A cancel aborts the signal
 * of the call's turn (`core/turn/Turn`), and stops nothing else.
 */
import { shardOf, type AgentId } from "../../schemas/Address.ts";
import type { Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { encodeMessage } from "../../schemas/bus/message.ts";
import type { Subjects } from "../../schemas/Subjects.ts";
import type { BusShape } from "../bus/Bus.ts";
import { withEntry, without } from "../collections/sparse.ts";
import { AbortSource, type Abortable } from "../lazyFetch/AbortSource.ts";
import type { TimeShape } from "../time/Time.ts";
import type { CallAnswer } from "./CallAnswer.ts";

/** A host that does not accept a cancel in this time may be gone, and the call with it. */
const CANCEL_MS = 5_000;

/** What cancels need of the client that makes the calls. */
interface CancelPorts {
  readonly bus: Pick<BusShape, "request">;
  readonly time: Pick<TimeShape, "id">;
  readonly subjects: Subjects;
  readonly shards: number;
}

/**
 * Makes a call by `ask`, which receives it with its token. Settles as that does, or rejects with
 * the reason of `abort` when that fires first.
 */
export async function cancellable<A extends { readonly reply: CallReply }>(
  ports: CancelPorts,
  id: AgentId,
  { call, abort }: { readonly call: Call; readonly abort: Abortable },
  ask: (call: Call) => Promise<A>,
): Promise<A> {
  if (abort.fired) throw abort.reason;
  const token = ports.time.id();
  // By requests, so that they do not overtake the call; the answers are ignored.
  const notify = (notice: Call): void => {
    const subject = ports.subjects.call(shardOf(id, ports.shards), id);
    void ports.bus.request(subject, encodeMessage(notice), { timeoutMs: CANCEL_MS });
  };
  const asked = ask({ ...call, token });
  return new Promise((resolve, reject) => {
    const over = abort.onFire(() => {
      notify({ kind: "cancel", call: token });
      reject(abort.reason as Error);
    });
    asked.then(
      (result) => {
        over();
        const { reply } = result;
        // Its answer was on its way: the rest of it is not read.
        if (abort.fired && reply.kind === "response" && reply.stream !== undefined)
          notify({ kind: "pull", stream: reply.stream, cancel: true });
        resolve(result);
      },
      (error: Error) => {
        over();
        reject(error);
      },
    );
  });
}

/** The reason with which a turn's signal aborts when its caller has left. */
const callerGone = (): DOMException =>
  new DOMException("The caller has cancelled the call", "AbortError");

const TAKEN: CallAnswer = { reply: { kind: "taken" } };

/** What a slot knows of the calls to its agent. */
interface CalledSlot {
  /** By token. Undefined: none is under way. */
  cancellable: Map<string, AbortSource> | undefined;
}

/** Runs a call. `f` receives what aborts its turn; undefined: the call can't be cancelled. */
export async function runCancellable<A>(
  slot: CalledSlot,
  { token }: Call,
  f: (abort: AbortSource | undefined) => Promise<A>,
): Promise<A> {
  if (token === undefined) return f(undefined);
  const abort = new AbortSource();
  slot.cancellable = withEntry(slot.cancellable, token, abort);
  try {
    return await f(abort);
  } finally {
    slot.cancellable = without(slot.cancellable, token);
  }
}

/** Does nothing for a call that is over, or that never came. */
export async function cancelCall(slot: CalledSlot, token: string): Promise<CallAnswer> {
  slot.cancellable?.get(token)?.fire(callerGone());
  return TAKEN;
}
