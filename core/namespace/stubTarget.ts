/** What a stub stands for, for code that is built on a stub that a user holds. */
import type { AgentId } from "../../schemas/Address.ts";
import type { CallClient } from "../call/CallClient.ts";

/**
 * Makes a stub's calls; the gateway's or the host's. Resolved late: a binding exists before its
 * process runs.
 */
export type CallClientSource = () => Pick<CallClient, "call">;

/** The target of a stub. */
export interface StubTarget {
  readonly client: CallClientSource;
  readonly id: AgentId;
}

/** The key under which a stub has its target. */
export const TARGET = Symbol("target");

/** The target of a stub; undefined for any other value. */
export const stubTarget = (stub: unknown): StubTarget | undefined =>
  typeof stub === "object" && stub !== null
    ? (stub as { readonly [TARGET]?: StubTarget })[TARGET]
    : undefined;
