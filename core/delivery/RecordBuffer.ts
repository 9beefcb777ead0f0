/**
 * Gathers a process's delivery records into batches, and bounds what waits, what one batch holds
 * and what strangers can have stored (`DeliveryLog`, rules 1 and 2). Records are kept as objects
 * until their batch is stored, so that the path of a request only pays for a push.
 */
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";
import type { TimeShape } from "../time/Time.ts";
import { kindOf, RECORD_KINDS, type RecordKind } from "./DeliveryLog.ts";

/** A reader waits no longer than this. A busy gateway fills its batches sooner (`BATCH_BYTES`). */
const FLUSH_MS = 250;
/**
 * A hundred records or more. Half of what a connection to the broker gathers before it writes
 * (`services/nats/client/gatherWrites`), so that a batch is written with the events of its pass.
 */
const BATCH_BYTES = 16 * 1024;
/** Bytes of a usual record in its batch (`RecordBatch`, rule 2), without its variable texts. */
const RECORD_BYTES = 120;
/** Two seconds of a busy gateway; after longer the broker is unavailable. About 10 MB. */
const WAITING_MAX = 20_000;
/** Texts of agents (errors) are cut to this many UTF-16 units. */
const TEXT_MAX = 500;
/** Refused requests that each process records. Past it one record counts the others. */
const REFUSED_PER_SECOND = 20;
/** A misconfigured provider's first minutes are worth seeing one by one. */
const REFUSED_BURST = 200;

/** Resolves to whether the batch is stored. Never rejects. */
type StoreBatch = (kind: RecordKind, records: ReadonlyArray<DeliveryRecord>) => Promise<boolean>;

type Clock = Pick<TimeShape, "monotonicMs" | "after">;

export class RecordBuffer {
  private readonly waiting: Record<RecordKind, DeliveryRecord[]> = { taken: [], refused: [] };
  private bytes: Record<RecordKind, number> = { taken: 0, refused: 0 };
  /** Records that are being stored. */
  private storing = 0;
  /** Settles when all batches so far are stored or dropped. */
  private stored: Promise<void> = Promise.resolve();
  private cancelFlush: (() => void) | undefined;
  private refusedTokens = REFUSED_BURST;
  private refilledMs: number;
  /** The last refused request without its own record, and their number. */
  private omitted: { record: DeliveryRecord; count: number } | undefined;
  private droppedCount = 0;

  constructor(
    private readonly time: Clock,
    private readonly store: StoreBatch,
  ) {
    this.refilledMs = time.monotonicMs();
  }

  get dropped(): number {
    return this.droppedCount;
  }

  record(given: DeliveryRecord): void {
    const kind = kindOf(given);
    if (kind === "refused" && !this.takeToken()) {
      this.omitted = { record: given, count: (this.omitted?.count ?? 0) + 1 };
      return this.flushLater();
    }
    const { waiting } = this;
    if (waiting.taken.length + waiting.refused.length + this.storing >= WAITING_MAX) {
      this.droppedCount++;
      return;
    }
    this.add(kind, withShortTexts(given));
    if (this.bytes[kind] >= BATCH_BYTES) this.send(kind);
    else this.flushLater();
  }

  /** Resolves when all records so far are stored or dropped. */
  async flush(): Promise<void> {
    this.sendAll();
    await this.stored;
  }

  private add(kind: RecordKind, record: DeliveryRecord): void {
    const { error = "", why = "", key = "", agent } = record;
    this.bytes[kind] +=
      RECORD_BYTES + error.length + why.length + key.length + (agent?.[1].length ?? 0);
    this.waiting[kind].push(record);
  }

  private flushLater(): void {
    this.cancelFlush ??= this.time.after(FLUSH_MS, () => this.sendAll());
  }

  private sendAll(): void {
    this.cancelFlush?.();
    this.cancelFlush = undefined;
    if (this.omitted !== undefined) {
      const { record, count } = this.omitted;
      this.omitted = undefined;
      this.add("refused", withShortTexts({ ...record, ...(count > 1 && { more: count - 1 }) }));
    }
    for (const kind of RECORD_KINDS) if (this.waiting[kind].length > 0) this.send(kind);
  }

  private send(kind: RecordKind): void {
    const records = this.waiting[kind];
    this.waiting[kind] = [];
    this.bytes[kind] = 0;
    const { length } = records;
    this.storing += length;
    const stored = this.store(kind, records).then((isStored) => {
      if (!isStored) this.droppedCount += length;
      this.storing -= length;
    });
    this.stored = Promise.all([this.stored, stored]).then(() => undefined);
  }

  private takeToken(): boolean {
    const nowMs = this.time.monotonicMs();
    const refill = ((nowMs - this.refilledMs) / 1_000) * REFUSED_PER_SECOND;
    this.refusedTokens = Math.min(REFUSED_BURST, this.refusedTokens + refill);
    this.refilledMs = nowMs;
    if (this.refusedTokens < 1) return false;
    this.refusedTokens--;
    return true;
  }
}

function withShortTexts(record: DeliveryRecord): DeliveryRecord {
  const { error, why } = record;
  if ((error?.length ?? 0) <= TEXT_MAX && (why?.length ?? 0) <= TEXT_MAX) return record;
  return {
    ...record,
    ...(error !== undefined && { error: cut(error) }),
    ...(why !== undefined && { why: cut(why) }),
  };
}

const cut = (text: string): string =>
  text.length <= TEXT_MAX ? text : `${text.slice(0, TEXT_MAX)}…`;
