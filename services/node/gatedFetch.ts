/**
 * Makes the `fetch` of agent code wait for the commits before it: a request to the outside must not
 * depend on a write that a crash could still undo. This is the output gate for what the runtime
 * does not send itself. The request is aborted when nobody waits for its turn any more, unless it
 * says `signal: null`. In the function of a step it carries the step's `Idempotency-Key`. Answers
 * are as `decodedAnswer` says, also outside of turns.
 */
import { joinSignals } from "../../core/lazyFetch/AbortSource.ts";
import { LazyRequest } from "../../core/lazyFetch/LazyRequest.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { requestOfStep } from "../../core/step/requestOfStep.ts";
import { asyncAmbient } from "./AsyncAmbient.ts";
import { decodedAnswer } from "./decodedAnswer.ts";

const GATED = Symbol.for("agents.gatedFetch");

/** Replaces the global `fetch`, once per process. Outside of a turn requests do not wait. */
export function installGatedFetch(): void {
  const given = globalThis.fetch;
  if (GATED in given) return;
  const plain = async (...args: Parameters<typeof fetch>): Promise<Response> =>
    decodedAnswer(await given(...args));
  const gated = async (...args: Parameters<typeof fetch>): Promise<Response> => {
    const turn = asyncAmbient.current();
    if (!(turn?.owner instanceof ActiveAgent)) return plain(...args);
    const [input, init] = withOwnOptions(args);
    await turn.owner.flush();
    const { step } = turn;
    if (init?.signal === null)
      return step === undefined
        ? plain(input, init)
        : plain(requestOfStep(step, new Request(input, init)));
    const own = init?.signal ?? (input instanceof Request ? input.signal : undefined);
    const all = { ...init, signal: joinSignals(own, turn.abort) };
    const whole = LazyRequest.unwrap(input);
    return step === undefined
      ? plain(whole, all)
      : plain(requestOfStep(step, new Request(whole, all)));
  };
  globalThis.fetch = Object.assign(gated, { [GATED]: true });
}

/** A `Request` as options has getters, which a copy of the options would not have. */
const withOwnOptions = ([input, init]: Parameters<typeof fetch>): Parameters<typeof fetch> =>
  init instanceof Request ? [new Request(input, init)] : [input, init];
