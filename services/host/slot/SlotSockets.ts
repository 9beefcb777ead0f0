/**
 * The open sockets of one agent, at whichever gateways. While the agent is in memory it has them
 * itself (`AgentSockets`); otherwise they are hibernated: kept here for its next activation. Owned
 * by `AgentSlot`.
 */
import { socketKey, type SocketInfo } from "../../../schemas/bus/GatewayMessage.ts";
import { withEntry, without } from "../../../core/collections/sparse.ts";
import type { ActiveAgent } from "../../../core/runtime/ActiveAgent.ts";

export class SlotSockets {
  private hibernated: Map<string, SocketInfo> | undefined;

  /** `slot` has the agent while it is in memory. */
  constructor(private readonly slot: { readonly agent: ActiveAgent | undefined }) {}

  /** How many are hibernated. */
  get size(): number {
    return this.hibernated?.size ?? 0;
  }

  has(key: string): boolean {
    return this.hibernated?.has(key) === true || this.slot.agent?.sockets.has(key) === true;
  }

  /** The hibernated ones. */
  values(): Iterable<SocketInfo> {
    return this.hibernated?.values() ?? [];
  }

  /** Those at one gateway. */
  at(gateway: string): ReadonlyArray<SocketInfo> {
    const all = this.slot.agent?.sockets.infos() ?? [...this.values()];
    return all.filter((info) => info.gateway === gateway);
  }

  /** A census found the socket, or another slot leaves it to this one. */
  add(info: SocketInfo): void {
    const { agent } = this.slot;
    const key = socketKey(info);
    if (agent !== undefined) agent.keeping.meet(info);
    // What the agent left here at hibernation is newer than what the gateway knows.
    else if (this.hibernated?.has(key) !== true) this.keep(key, info);
  }

  delete(key: string): void {
    this.hibernated = without(this.hibernated, key);
    this.slot.agent?.sockets.delete(key);
  }

  /** The agent leaves memory. `inOrder` is as for `AgentSockets.records`. */
  hibernate({ sockets }: ActiveAgent, how: { readonly inOrder: boolean }): void {
    for (const [key, info] of sockets.records(how)) this.keep(key, info);
  }

  /** The agent that starts has all of them. They stay here until `started`: it may fail. */
  resumeOn({ sockets }: ActiveAgent): void {
    for (const info of this.values()) sockets.resume(info);
  }

  /** The agent has started. It also has those that were added since `resumeOn`. */
  started({ sockets, keeping, discarded }: ActiveAgent): void {
    if (!discarded)
      for (const [key, info] of this.hibernated ?? []) if (!sockets.has(key)) keeping.meet(info);
    this.hibernated = undefined;
  }

  /** Forgets the hibernated ones. */
  clear(): void {
    this.hibernated = undefined;
  }

  private keep(key: string, info: SocketInfo): void {
    this.hibernated = withEntry(this.hibernated, key, info);
  }
}
