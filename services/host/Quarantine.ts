/**
 * The quarantined agents of one shard: their marks, which every later owner of the shard reads
 * before it runs anything (`core/quarantine`). Owned by `Shard`, which has a `QuarantinedSlot` for
 * each of them that something arrives for.
 *
 * 1. A mark is in force here from the moment it is made. It is stored in the background, with
 *    retries until that succeeds: a host that takes over meanwhile only starts its own count.
 * 2. An agent is released by new code, by the end of its time, and by an operator.
 */
import { addressKey, shardOf, type AgentId, type ShardId } from "../../schemas/Address.ts";
import type { QuarantineMark } from "../../schemas/QuarantineMark.ts";
import { isQuarantined, nextMark, releasedMark } from "../../core/quarantine/quarantineRule.ts";
import type { HostServices } from "./HostServices.ts";

/** Why an agent is quarantined. */
export type QuarantineReason = Pick<QuarantineMark, "kind" | "reason">;

interface Marked {
  readonly id: AgentId;
  mark: QuarantineMark;
  isStored: boolean;
}

export class Quarantine {
  /** Includes quarantines that are over, because an agent's next one lasts longer. */
  private readonly marked = new Map<string, Marked>();

  constructor(
    private readonly services: HostServices,
    private readonly shard: ShardId,
  ) {}

  /** Rejects with `BrokerUnavailable`. */
  async load(): Promise<void> {
    const { quarantines, config, quarantined } = this.services;
    for (const { id, mark } of await quarantines.list()) {
      if (shardOf(id, config.shards) !== this.shard) continue;
      this.marked.set(addressKey(id), { id, mark, isStored: true });
      if (this.isInForce(mark)) quarantined.add(addressKey(id));
      else if (mark.untilMs > this.services.time.nowMs()) this.release(id, "new code");
    }
  }

  /** Undefined: the agent is not quarantined. */
  of(id: AgentId): QuarantineMark | undefined {
    if (this.marked.size === 0) return undefined;
    const mark = this.marked.get(addressKey(id))?.mark;
    return mark !== undefined && this.isInForce(mark) ? mark : undefined;
  }

  add(id: AgentId, why: QuarantineReason): void {
    const { config, time, log, metrics, quarantined } = this.services;
    const key = addressKey(id);
    const before = this.marked.get(key)?.mark;
    const own = { ...why, host: config.hostId, version: this.version };
    const mark = nextMark(before, own, time.nowMs());
    quarantined.add(key);
    metrics.ofClass(id.class).quarantine();
    log.error("an agent was quarantined: its inputs stay stored, and none of its code runs", {
      ...id,
      reason: why.reason,
      until: new Date(mark.untilMs).toISOString(),
      times: mark.times,
    });
    this.put({ id, mark, isStored: false });
  }

  /** Returns the mark that the agent had; undefined where it is not quarantined. */
  release(id: AgentId, by: "an operator" | "new code"): QuarantineMark | undefined {
    const { time } = this.services;
    const mark = this.marked.get(addressKey(id))?.mark;
    if (mark === undefined || mark.untilMs <= time.nowMs()) return undefined;
    this.put({ id, mark: releasedMark(mark, time.nowMs()), isStored: false });
    this.over(id, by);
    return mark;
  }

  /** Stores unstored marks. Returns the agents whose quarantine has ended since the last call. */
  look(): ReadonlyArray<AgentId> {
    if (this.marked.size === 0) return [];
    const over: AgentId[] = [];
    for (const entry of this.marked.values()) {
      const { id, mark } = entry;
      if (!entry.isStored) this.store(entry);
      if (!this.services.quarantined.has(addressKey(id)) || this.isInForce(mark)) continue;
      if (mark.untilMs > this.services.time.nowMs()) this.release(id, "new code");
      else this.over(id, "time");
      over.push(id);
    }
    return over;
  }

  /** The agent is erased, with its mark. */
  forget(id: AgentId): void {
    this.marked.delete(addressKey(id));
    this.services.quarantined.delete(addressKey(id));
  }

  /** The shard is lost. */
  clear(): void {
    for (const { id } of this.marked.values()) this.forget(id);
  }

  private over(id: AgentId, by: string): void {
    this.services.quarantined.delete(addressKey(id));
    this.services.log.info("an agent was released from quarantine", { ...id, by });
  }

  private isInForce(mark: QuarantineMark): boolean {
    return isQuarantined(mark, this.services.time.nowMs(), this.version);
  }

  private get version(): string | undefined {
    return this.services.module().version;
  }

  private put(entry: Marked): void {
    this.marked.set(addressKey(entry.id), entry);
    this.store(entry);
  }

  /** Rule 1. */
  private store(entry: Marked): void {
    const { quarantines, log } = this.services;
    entry.isStored = true;
    quarantines.put(entry.id, entry.mark).catch((error: unknown) => {
      entry.isStored = false;
      log.warn("a quarantine could not be stored; trying again", {
        ...entry.id,
        error: String(error),
      });
    });
  }
}
