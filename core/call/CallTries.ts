/**
 * The earlier tries of one call or message: which hosts were lost while they had it, and so may
 * have been ended by it. The caller keeps it over all repetitions, so that all tries count.
 * `CallClient` feeds it.
 *
 * A try without an answer stays open: its host may be lost long after the caller has stopped
 * waiting.
 */
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import type { BusReply, BusShape } from "../bus/Bus.ts";

export class CallTries {
  /** Ids of hosts that were lost while they had it, without those that came back. */
  private readonly lost = new Set<string>();
  /** How often a host was lost, including those that came back. */
  losses = 0;
  /** Losses of its shard when it was sent. Undefined: no host has it unanswered. */
  private sentAfter: number | undefined;
  private before: number | undefined;

  /** A host may be running it, or may have run it without answering. */
  get isOut(): boolean {
    return this.sentAfter !== undefined;
  }

  /** It may have ended a host. */
  get isSuspect(): boolean {
    return this.losses > 0;
  }

  /** Whether so many hosts were lost, or hosts so often. */
  hasLost(hosts: number, losses: number): boolean {
    return this.lost.size >= hosts || this.losses >= losses;
  }

  /** Those that live do not count as lost any more. */
  forget(isAlive: (host: string) => boolean): void {
    for (const host of this.lost) if (isAlive(host)) this.lost.delete(host);
  }

  /** `losses`: owners that its shard has lost so far; `host`: the last of them. */
  count(losses: number, host: string): void {
    if (this.sentAfter === undefined || this.sentAfter === losses) return;
    this.sentAfter = undefined;
    this.losses++;
    this.lost.add(host);
  }

  /** Called after `count`. */
  sent(losses: number): void {
    this.before = this.sentAfter;
    this.sentAfter = losses;
  }

  /** This try reached no host, or one that did not begin it. */
  notBegun(): void {
    this.sentAfter = this.before;
  }

  /** Its host has answered `notHere`. */
  refused({ late, ended }: Pick<CallReply & { kind: "notHere" }, "late" | "ended">): void {
    if (late !== true) this.notBegun();
    if (ended !== true) return;
    // The process in which the agent ran alone. A return of its host does not undo this loss.
    this.losses++;
    this.lost.add(`process ${this.losses}`);
  }

  /** What the outcome of the last try says. */
  heard({ _tag }: BusReply, bus: Pick<BusShape, "connected">): void {
    if (_tag === "Reply") this.answered();
    else if (_tag === "NoResponders" || _tag === "Denied" || !bus.connected()) this.notBegun();
  }

  /** Its host has answered, and no longer has the call. */
  answered(): void {
    this.sentAfter = undefined;
  }
}
