/** The ambient-context port on AsyncLocalStorage; and `getCurrentAgent()`, which reads it. */
import { AsyncLocalStorage } from "node:async_hooks";
import * as Layer from "effect/Layer";
import { Ambient, type AmbientShape } from "../../core/turn/Ambient.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { Agent } from "../../core/agent/Agent.ts";
import type { Connection } from "../../core/connection/Connection.ts";
import type { AgentEmail } from "../../core/mail/AgentEmail.ts";
import { webhookOf, type CurrentWebhook } from "../../core/input/webhookOf.ts";
import type { Turn } from "../../core/turn/Turn.ts";

// One store for the process: user code asks for the current agent without holding anything of ours.
const storage = new AsyncLocalStorage<Turn>();

export const asyncAmbient: AmbientShape = {
  run: (turn, f) => storage.run(turn, f),
  current: () => storage.getStore(),
};

export const asyncAmbientLayer = Layer.succeed(Ambient, asyncAmbient);

/** The agent that the running code is of, for calls that it makes (`CallClient`). */
export const callingAgent = (): ActiveAgent | undefined => {
  const owner = storage.getStore()?.owner;
  return owner instanceof ActiveAgent ? owner : undefined;
};

/** Which agent the running code belongs to, and in whose context (`protocol.md` §6.6). */
export interface CurrentAgent<A = Agent<unknown>> {
  readonly agent: A | undefined;
  readonly connection: Connection | undefined;
  readonly request: Request | undefined;
  readonly email: AgentEmail | undefined;
  /** Set in the turn of a webhook, and nowhere else. */
  readonly webhook: CurrentWebhook | undefined;
  /** Which run of a durable input this is, from 1: past 1, an earlier one failed or its host died. */
  readonly attempt: number;
}

/** Every field is undefined (`attempt` 1) outside of a turn. `A` is what the caller knows, unchecked. */
export function getCurrentAgent<A extends object = Agent<unknown>>(): CurrentAgent<A> {
  const turn = storage.getStore();
  return {
    // The caller's word: it wrote the class whose code is running.
    agent: callingAgent()?.agent as object as A | undefined,
    connection: turn?.connection,
    request: turn?.request,
    email: turn?.email,
    webhook: turn === undefined ? undefined : webhookOf(turn.cause),
    attempt: turn?.cause.attempt ?? 1,
  };
}
