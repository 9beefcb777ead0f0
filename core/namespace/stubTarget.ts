/** What a stub stands for, for code that is built on a stub that a user holds. */
import type { AgentId } from "../../schemas/Address.ts";
import type { CallClient } from "../call/CallClient.ts";

/**
 * Makes a stub's calls; the gateway's or the host's. Resolved late: a binding exists before its
 * process runs.
 */
export type CallClientSource = () => Pick<CallClient, "call">;

/** How a stub is made. */
export interface StubMaking {
  /** As `StubOptions.props`. */
  readonly props?: unknown;
  /** The key of its calls (`withKey`). */
  readonly key?: string;
  /** What it resolves to is given to the caller. Default: the answer itself. */
  readonly through?: <R>(method: string, answer: Promise<R>) => Promise<R>;
  /** What its holder sees as its id, where it is a Durable Object's. */
  readonly objectId?: { readonly name?: string | undefined };
}

/** The target of a stub. */
export interface StubTarget {
  readonly client: CallClientSource;
  readonly id: AgentId;
  readonly options: StubMaking;
}

/** The key under which a stub has its target. */
export const TARGET = Symbol("target");

/** The target of a stub; undefined for any other value. */
export const stubTarget = (stub: unknown): StubTarget | undefined =>
  typeof stub === "object" && stub !== null
    ? (stub as { readonly [TARGET]?: StubTarget })[TARGET]
    : undefined;
