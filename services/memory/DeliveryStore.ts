/** The delivery log of a broker in memory: the last batches of each kind, and who follows them. */
import type { RecordKind } from "../../core/delivery/DeliveryLog.ts";
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";

type Records = ReadonlyArray<DeliveryRecord>;

/** Batches kept of each kind: more than any test makes. */
const BATCHES_MAX = 1_000;

export class DeliveryStore {
  readonly batches: Record<
    RecordKind,
    Array<{ readonly timeMs: number; readonly records: Records }>
  > = { taken: [], refused: [] };
  readonly followers = new Set<(records: Records) => void>();

  add(kind: RecordKind, timeMs: number, records: Records): void {
    const all = this.batches[kind];
    all.push({ timeMs, records });
    if (all.length > BATCHES_MAX) all.shift();
    for (const follower of this.followers) follower(records);
  }
}
