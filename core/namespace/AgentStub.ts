/**
 * The type of a stub: the public methods of an agent's class as async functions, without those of
 * the base class. `AgentNamespace` makes stubs.
 */
import type { AgentMember } from "../../schemas/AgentMember.ts";
import type { AgentInstanceId } from "./instanceId.ts";

/** Methods of the base class that a stub has, because they are useful from outside. */
export type PublicOfBase = "setState" | "broadcast" | "destroy" | "getApprovals" | "decideApproval";

/**
 * A handle on one agent: `fetch`, and every public method of its class as an async function.
 * Arguments and results are JSON (`core/call/wireValue`); errors keep their name, message and
 * cause.
 */
export type AgentStub<A = unknown> = {
  readonly name: string;
  readonly id: AgentInstanceId;
  fetch(request: Request | string | URL, init?: RequestInit): Promise<Response>;
} & {
  readonly [
    K in Exclude<keyof A, Exclude<AgentMember, PublicOfBase> | "fetch" | symbol> as A[K] extends (
      ...args: never[]
    ) => unknown
      ? K
      : never
  ]: A[K] extends (...args: infer Args) => infer Result
    ? (...args: Args) => Promise<Awaited<Result>>
    : never;
};
