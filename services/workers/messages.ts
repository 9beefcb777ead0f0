/**
 * The messages between a control process and its workers over their channel. A module's code can
 * send anything there, too, so a receiver reads messages with the functions below and ignores all
 * others.
 */
import type { Lease, LeaseChange } from "../../core/lease/Leases.ts";
import type {
  AgentKey,
  IsolatedAsk,
  IsolatedOwner,
  IsolatedReply,
} from "../../core/input/Isolation.ts";
import type { Recording } from "./Recordings.ts";

/** The first message to a worker. It has imported its code by then, and waits for this. */
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
  /** As `Isolation`. */
  readonly endedHost?: string | undefined;
  /** The agents that run in processes of their own. */
  readonly isolated: ReadonlyArray<AgentKey>;
}

/** The broker that the control process has started, or that was configured. */
export interface GivenBroker {
  readonly url: string;
  /** For people. */
  readonly summary: string;
}

export interface Serving {
  /** The worker's own private port, e.g. `http://127.0.0.1:4711`. */
  readonly admin: string;
  /** The port of its gateway, which its successor takes. */
  readonly port?: number | undefined;
  /** Its id in events and leases. */
  readonly host?: string | undefined;
}

/** A request for leases. `LeaseKeeper` answers each with a `LeaseAnswer` of the same number. */
export type LeaseRequest = { readonly n: number } & (
  | { readonly ask: "claim"; readonly key: string; readonly value: string }
  | { readonly ask: "renew"; readonly lease: Lease; readonly value?: string | undefined }
  | { readonly ask: "supersede"; readonly lease: Lease; readonly value: string }
  | { readonly ask: "release"; readonly lease: Lease }
  | { readonly ask: "watch" }
);

/** `error`: the broker could not be reached, or has refused it (`isRefusal`). */
export type LeaseAnswer =
  | { readonly n: number; readonly result: unknown }
  | { readonly n: number; readonly error: string; readonly isRefusal: boolean };

/** A worker passes something to the process of an isolated agent. */
export interface IsolateRequest {
  readonly n: number;
  readonly agent: AgentKey;
  readonly owner: IsolatedOwner;
  readonly ask: IsolatedAsk;
}

export interface IsolateAnswer {
  readonly n: number;
  readonly reply: IsolatedReply;
}

export type ToWorker =
  | { readonly begin: Begin }
  /** To the process of an isolated agent. */
  | { readonly isolate: IsolateRequest }
  | { readonly isolateAnswer: IsolateAnswer }
  /** The agent is to run alone, whichever worker owns its shard. */
  | { readonly isolates: AgentKey }
  /** The agent may run in the worker again. */
  | { readonly returns: AgentKey }
  | { readonly broker: GivenBroker }
  | { readonly recording: Recording }
  | { readonly leaseAnswers: ReadonlyArray<LeaseAnswer> }
  | { readonly leaseChange: LeaseChange }
  | { readonly stop: true };

export type FromWorker =
  | { readonly serves: Serving }
  | { readonly leases: ReadonlyArray<LeaseRequest> }
  | { readonly isolate: IsolateRequest }
  /** From the process of an isolated agent. */
  | { readonly isolateAnswer: IsolateAnswer }
  | { readonly left: AgentKey }
  | { readonly lost: AgentKey }
  /** The module was loaded again. */
  | { readonly newCode: true };

/** An agent as a key of maps. */
export const nameOf = ({ class: ofClass, name }: AgentKey): string => `${ofClass}/${name}`;

/** Returns undefined for other messages. */
export function readServing(message: unknown): Serving | undefined {
  const { serves } = (message ?? {}) as { readonly serves?: Partial<Serving> };
  if (typeof serves?.admin !== "string") return undefined;
  return {
    admin: serves.admin,
    ...(typeof serves.port === "number" && { port: serves.port }),
    ...(typeof serves.host === "string" && { host: serves.host }),
  };
}

/** Messages of a worker, or of an isolated agent's process, about isolated agents. */
type OfIsolation = Exclude<FromWorker, { serves: unknown } | { leases: unknown }>;

/** Returns undefined for other messages. */
export function readIsolation(message: unknown): OfIsolation | undefined {
  const { isolate, isolateAnswer, left, lost, newCode } = (message ?? {}) as {
    readonly isolate?: Partial<IsolateRequest> | null;
    readonly isolateAnswer?: Partial<IsolateAnswer> | null;
    readonly left?: Partial<AgentKey> | null;
    readonly lost?: Partial<AgentKey> | null;
    readonly newCode?: unknown;
  };
  // Only what was checked, because a message may have several of them.
  if (isRequest(isolate)) return { isolate };
  if (isAnswer(isolateAnswer)) return { isolateAnswer };
  if (isAgent(left)) return { left };
  if (isAgent(lost)) return { lost };
  return newCode === true ? { newCode } : undefined;
}

const isRequest = (
  request: Partial<IsolateRequest> | null | undefined,
): request is IsolateRequest =>
  typeof request?.n === "number" &&
  typeof request.owner?.epoch === "number" &&
  typeof request.ask?.kind === "string" &&
  isAgent(request.agent);

const isAnswer = (answer: Partial<IsolateAnswer> | null | undefined): answer is IsolateAnswer =>
  typeof answer?.n === "number" && typeof answer.reply?.kind === "string";

const isAgent = (agent: Partial<AgentKey> | null | undefined): agent is AgentKey =>
  typeof agent?.class === "string" && typeof agent.name === "string";

/** Returns none for other messages. */
export function readLeaseRequests(message: unknown): ReadonlyArray<LeaseRequest> {
  const { leases } = (message ?? {}) as { readonly leases?: unknown };
  return Array.isArray(leases) ? leases.filter(isLeaseRequest) : [];
}

function isLeaseRequest(request: unknown): request is LeaseRequest {
  const { n, ask } = (request ?? {}) as Partial<LeaseRequest>;
  return typeof n === "number" && typeof ask === "string";
}
