/**
 * What a control process and its workers send each other over their channel. A module's code can
 * send anything there, too: whoever receives a message reads it with the functions below, and
 * ignores what is none of these.
 */
import type { Lease, LeaseChange } from "../../core/lease/Leases.ts";

/** What a worker begins with. It has imported its code by then, and waits for this. */
export interface Begin {
  /** Its command line, without `node` and the script. */
  readonly args: ReadonlyArray<string>;
  /** Where the control process's private port listens. */
  readonly adminHostname: string;
  readonly adminPort: number;
  /** It takes the place of a worker that has ended. */
  readonly again: boolean;
  /** For `dev`: the URL that opens the console, with its token. */
  readonly console?: string | undefined;
}

/** The broker that the control process has started, or was told of. */
export interface GivenBroker {
  readonly url: string;
  /** For people. */
  readonly summary: string;
}

/** Where a worker serves. */
export interface Serving {
  /** The worker's own private port, e.g. `http://127.0.0.1:4711`. */
  readonly admin: string;
  /** The port of its gateway, which its successor takes. */
  readonly port?: number | undefined;
}

/** A request for leases. `LeaseKeeper` answers each with a `LeaseAnswer` of the same number. */
export type LeaseRequest = { readonly n: number } & (
  | { readonly ask: "claim"; readonly key: string; readonly value: string }
  | { readonly ask: "renew"; readonly lease: Lease; readonly value?: string | undefined }
  | { readonly ask: "supersede"; readonly lease: Lease; readonly value: string }
  | { readonly ask: "release"; readonly lease: Lease }
  | { readonly ask: "watch" }
);

/** `error`: the broker could not be reached. */
export type LeaseAnswer =
  { readonly n: number; readonly result: unknown } | { readonly n: number; readonly error: string };

export type ToWorker =
  | { readonly begin: Begin }
  | { readonly broker: GivenBroker }
  | { readonly leaseAnswer: LeaseAnswer }
  | { readonly leaseChange: LeaseChange }
  | { readonly stop: true };

export type FromWorker = { readonly serves: Serving } | { readonly leases: LeaseRequest };

/** Returns undefined for other messages. */
export function readServing(message: unknown): Serving | undefined {
  const { serves } = (message ?? {}) as { readonly serves?: Partial<Serving> };
  if (typeof serves?.admin !== "string") return undefined;
  return { admin: serves.admin, ...(typeof serves.port === "number" && { port: serves.port }) };
}

/** Returns undefined for other messages. */
export function readLeaseRequest(message: unknown): LeaseRequest | undefined {
  const { leases } = (message ?? {}) as { readonly leases?: Partial<LeaseRequest> };
  return typeof leases?.n === "number" && typeof leases.ask === "string"
    ? (leases as LeaseRequest)
    : undefined;
}
