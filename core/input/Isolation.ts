/**
 * The port by which a host passes an agent's inputs and calls to the process in which that agent
 * runs alone, and the messages between the two. `IsolatedSlot` asks, `serveIsolated` answers;
 * `services/workers` carries the messages and decides which agents are isolated.
 *
 * The messages travel as JSON through the control process, which all workers wait for, so none is
 * large: the agent's process reads inputs and large bodies itself. Bytes are in base64.
 */
import type { AgentId, Epoch } from "../../schemas/Address.ts";
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";

export type IsolatedAsk =
  /** A stored input. The answer is `acked` or `nacked`. */
  | { readonly kind: "deliver"; readonly seq: number; readonly deliveries: number }
  /** `data`: a `Call` frame. The answer is `answered` or `failed`. */
  | { readonly kind: "call"; readonly data: string }
  /** Sockets of the agent. The answer is `done`. */
  | { readonly kind: "sockets"; readonly sockets: ReadonlyArray<SocketInfo> }
  /** Turns end and the agent hibernates. The answer is `drained`. */
  | { readonly kind: "drain" }
  /** The agent hibernates if it is idle. The answer is `drained` or `busy`. */
  | { readonly kind: "yield" };

export type IsolatedReply =
  | { readonly kind: "acked" }
  | { readonly kind: "nacked"; readonly delayMs: number }
  /** `data`: a `CallReply` frame. */
  | { readonly kind: "answered"; readonly data: string }
  /** `transient`: a retry may succeed. */
  | { readonly kind: "failed"; readonly transient: boolean; readonly message: string }
  | { readonly kind: "done" }
  | { readonly kind: "drained"; readonly sockets: ReadonlyArray<SocketInfo> }
  | { readonly kind: "busy" }
  /** The agent has to be quarantined: it ended too many processes, or its journal is damaged. */
  | { readonly kind: "condemned"; readonly why: "kills" | "journal"; readonly reason: string }
  /** The process ended before it answered. */
  | { readonly kind: "ended" };

/** An agent as messages name it. */
export interface AgentKey {
  readonly class: string;
  readonly name: string;
}

/** The owner of the agent's shard, in whose name its process writes. */
export interface IsolatedOwner {
  readonly epoch: Epoch;
  /** Its id in events. */
  readonly host: string;
}

export interface Isolation {
  /**
   * The host that this one replaces, if it is certain which agent ended it and that agent is
   * isolated. No other turn that ran there is then in doubt.
   */
  readonly endedHost: string | undefined;
  readonly holds: (id: AgentId) => boolean;
  /** Never rejects. Waits for the agent's process to start. */
  readonly ask: (id: AgentId, owner: IsolatedOwner, ask: IsolatedAsk) => Promise<IsolatedReply>;
  /**
   * Sets what is called when an agent becomes isolated, which `holds` then knows: the host leaves
   * the agent to its process.
   */
  readonly onIsolate: (f: (id: AgentId) => void) => void;
  /** Sets what is called when an agent may run among others again: drain it, then call `left`. */
  readonly onReturn: (f: (id: AgentId) => void) => void;
  /** The agent runs among the others again. */
  readonly left: (id: AgentId) => void;
  /** The agent's shard is lost, so its process ends. If it comes back, it is still isolated. */
  readonly lost: (id: AgentId) => void;
  /** The module was loaded again: every agent may return. */
  readonly newCode: () => void;
}

/** Receives the owner's requests, each with a function that answers it. */
export type OnAsk = (
  f: (
    id: AgentId,
    owner: IsolatedOwner,
    ask: IsolatedAsk,
    answer: (reply: IsolatedReply) => void,
  ) => void,
) => void;
