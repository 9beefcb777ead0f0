/** `getCurrentAgent()`: the agent whose code is running, and what it runs for. */
import type { Agent } from "../../core/agent/Agent.ts";
import type { Connection } from "../../core/connection/Connection.ts";
import { ObjectActor } from "../../core/durableObject/ObjectActor.ts";
import { webhookOf, type CurrentWebhook } from "../../core/input/webhookOf.ts";
import type { AgentEmail } from "../../core/mail/AgentEmail.ts";
import { WorkflowRun } from "../../core/runtime/WorkflowRun.ts";
import { asyncAmbient, callingAgent } from "./AsyncAmbient.ts";

/** The agent whose code is running, and what it runs for. */
export interface CurrentAgent<A = Agent<unknown>> {
  /** Undefined in a workflow and in a Durable Object, which are no agents of the app's. */
  readonly agent: A | undefined;
  readonly connection: Connection | undefined;
  readonly request: Request | undefined;
  readonly email: AgentEmail | undefined;
  /** Set in the turn of a webhook only. */
  readonly webhook: CurrentWebhook | undefined;
  /** Number of this run of a durable input, from 1. Above 1, a run failed or its host died. */
  readonly attempt: number;
  /**
   * Aborts when nobody waits for the turn any more: it was given up (`turnSeconds`), its HTTP
   * caller left, or its RPC was cancelled; in a workflow's step and in a fiber, when that is given
   * up or cancelled. Pass it to what the turn waits for. `fetch`, stubs and MCP calls have it.
   */
  readonly signal: AbortSignal | undefined;
}

/** The agent of the app's class that runs. */
function ownAgent(): Agent<unknown> | undefined {
  const agent = callingAgent()?.agent;
  return agent instanceof WorkflowRun || agent instanceof ObjectActor ? undefined : agent;
}

/** Outside of a turn every field is undefined, and `attempt` is 1. The type `A` is not checked. */
export function getCurrentAgent<A extends object = Agent<unknown>>(): CurrentAgent<A> {
  const turn = asyncAmbient.current();
  return {
    // Not checked: the caller wrote the class whose code is running.
    agent: ownAgent() as object as A | undefined,
    connection: turn?.connection,
    request: turn?.request,
    email: turn?.email,
    webhook: turn === undefined ? undefined : webhookOf(turn.cause),
    attempt: turn?.cause.attempt ?? 1,
    // Made when somebody asks for it.
    get signal() {
      return turn?.abort.signal;
    },
  };
}
