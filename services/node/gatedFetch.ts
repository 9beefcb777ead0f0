/**
 * Makes the `fetch` of agent code wait for the commits before it: a request to the outside must not
 * depend on a write that a crash could still undo. This is the output gate for what the runtime
 * does not send itself. In the function of a step requests carry the step's `Idempotency-Key`.
 */
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { requestOfStep } from "../../core/step/requestOfStep.ts";
import { asyncAmbient } from "./AsyncAmbient.ts";

const GATED = Symbol.for("agents.gatedFetch");

/** Replaces the global `fetch`, once per process. Outside of a turn requests do not wait. */
export function installGatedFetch(): void {
  const plain = globalThis.fetch;
  if (GATED in plain) return;
  const gated = async (...args: Parameters<typeof fetch>): Promise<Response> => {
    const turn = asyncAmbient.current();
    if (turn?.owner instanceof ActiveAgent) await turn.owner.flush();
    return turn?.step === undefined
      ? plain(...args)
      : plain(requestOfStep(turn.step, new Request(...args)));
  };
  globalThis.fetch = Object.assign(gated, { [GATED]: true });
}
