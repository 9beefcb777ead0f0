/**
 * The slot of a quarantined agent: nothing of it runs. Owned by `Shard`, in the place of an
 * `AgentSlot`, until the agent is released.
 *
 * 1. Its stored inputs are held by number, neither acked nor nacked, and run in order when it is
 *    released. A webhook that arrives as a call is left to its gateway, which stores it and answers
 *    202.
 * 2. Calls are answered at once: 503 with `retry-after`, or the error `AgentQuarantined`.
 */
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { SlotCall } from "../../schemas/bus/Call.ts";
import { socketKey, type SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import type { QuarantineMark } from "../../schemas/QuarantineMark.ts";
import type { CallAnswer } from "../../core/call/CallAnswer.ts";
import { SparseMap } from "../../core/collections/sparse.ts";
import type { InputHandle } from "../../core/inbox/Inbox.ts";
import type { Delivered } from "./slot/OutstandingInputs.ts";

/** Seconds. A caller that asks again sooner than the quarantine ends costs nothing. */
const RETRY_AFTER_MAX = 300;

/** The inputs and sockets that a slot leaves to its successor. */
export interface LeftBehind {
  /** In stored order. */
  readonly inputs: Iterable<Delivered>;
  readonly sockets: Iterable<SocketInfo>;
}

export class QuarantinedSlot {
  readonly id: AgentId;
  readonly mark: QuarantineMark;
  /** It is in no memory. */
  readonly agent = undefined;
  readonly outstanding = new SparseMap<Sequence, InputHandle>();
  readonly sockets = new SparseMap<string, SocketInfo>();
  private readonly nowMs: () => number;

  constructor(
    id: AgentId,
    { mark, nowMs }: { readonly mark: QuarantineMark; readonly nowMs: () => number },
  ) {
    this.id = id;
    this.mark = mark;
    this.nowMs = nowMs;
  }

  get empty(): boolean {
    return this.outstanding.size === 0 && this.sockets.size === 0;
  }

  /** Rule 1. */
  deliver({ data: _data, ...handle }: Delivered): void {
    this.outstanding.set(handle.seq, handle);
  }

  /** Rule 2. */
  call(call: SlotCall): Promise<CallAnswer> {
    return Promise.resolve(this.answer(call));
  }

  addSocket(info: SocketInfo): void {
    this.sockets.set(socketKey(info), info);
  }

  socketsOf(gateway: string): ReadonlyArray<SocketInfo> {
    return [...this.sockets.values()].filter((info) => info.gateway === gateway);
  }

  leave(): LeftBehind {
    const left = { inputs: [...this.outstanding.values()], sockets: [...this.sockets.values()] };
    this.discard();
    return left;
  }

  discard(): void {
    this.outstanding.clear();
    this.sockets.clear();
  }

  hibernate(): boolean {
    return false;
  }

  async recycle(): Promise<void> {}

  async drain(): Promise<void> {}

  private answer(call: SlotCall): CallAnswer {
    switch (call.kind) {
      case "input":
        return { reply: { kind: "notHere" } };
      case "close":
        this.sockets.delete(socketKey(call));
        return { reply: { kind: "taken" } };
      case "resume":
        this.addSocket(call.socket);
        return { reply: { kind: "taken" } };
      case "cancel":
      case "abort":
        return { reply: { kind: "taken" } };
      case "fetch":
      case "gate":
      case "connect":
        return this.unavailable();
      default:
        return { reply: { kind: "error", name: "AgentQuarantined", message: this.text } };
    }
  }

  private unavailable(): CallAnswer {
    const seconds = Math.ceil((this.mark.untilMs - this.nowMs()) / 1000);
    const retryAfter = String(Math.max(1, Math.min(RETRY_AFTER_MAX, seconds)));
    const headers = [
      ["content-type", "text/plain;charset=UTF-8"],
      ["retry-after", retryAfter],
    ] as const;
    // The reason names source files: it is for the operator.
    return {
      reply: { kind: "response", status: 503, headers },
      body: "Service Unavailable: this agent is quarantined. Webhooks to it are stored",
    };
  }

  private get text(): string {
    const { reason, untilMs } = this.mark;
    return `the agent is quarantined until ${new Date(untilMs).toISOString()}: ${reason}. "agents release" ends the quarantine earlier`;
  }
}
