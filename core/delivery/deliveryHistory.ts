/**
 * Looks into the delivery log: records of one delivery joined, deliveries that somebody asks for,
 * and all that is known of one. For `agents deliveries`, `agents redeliver` and the console.
 */
import {
  joinRecords,
  requestOf,
  timeOfDelivery,
  type DeliveryRecord,
  type DeliveryStatus,
} from "../../schemas/DeliveryRecord.ts";
import type { DeliveryLogShape, RecordKind } from "./DeliveryLog.ts";

/** What is asked for. Absent: any. */
export interface DeliveryFilter {
  readonly route?: string | undefined;
  readonly status?: DeliveryStatus | undefined;
  readonly className?: string | undefined;
  readonly name?: string | undefined;
  /** Milliseconds since the epoch: of the request's arrival. */
  readonly sinceMs?: number | undefined;
  readonly untilMs?: number | undefined;
}

export function matches(record: DeliveryRecord, filter: DeliveryFilter): boolean {
  const { route, status, className, name, sinceMs = 0, untilMs = Number.MAX_VALUE } = filter;
  const timeMs = arrivalOf(record);
  return (
    timeMs >= sinceMs &&
    timeMs <= untilMs &&
    (route === undefined || record.route === route) &&
    (status === undefined || record.status === status) &&
    (className === undefined || record.agent?.[0] === className) &&
    (name === undefined || record.agent?.[1] === name)
  );
}

/** When the request of a record arrived. */
export const arrivalOf = ({ id, time, at }: DeliveryRecord): number =>
  time ?? timeOfDelivery(id) ?? at;

/** How much later than its records a batch may be stored, including differences of clocks. */
const LATE_MS = 60_000;

/**
 * The last `limit` deliveries that match, the oldest first, each with all that is known of it.
 * Reads no further back than it has to. Rejects with `BrokerUnavailable`.
 */
export async function lastDeliveries(
  log: Pick<DeliveryLogShape, "recent">,
  filter: DeliveryFilter,
  limit: number,
): Promise<ReadonlyArray<DeliveryRecord>> {
  const found: DeliveryRecord[] = [];
  for (const kind of kindsOf(filter)) {
    const known = new Map<string, DeliveryRecord>();
    let matched = 0;
    for await (const records of log.recent(kind)) {
      for (const record of records) {
        const joined = joinRecords(known.get(record.id), record);
        known.set(record.id, joined);
        // A delivery is whole with its first record, which has the route.
        if (record.time !== undefined && matches(joined, filter)) matched++;
      }
      const oldest = records.at(-1);
      if (matched >= limit) break;
      if (oldest !== undefined && oldest.at < (filter.sinceMs ?? 0) - LATE_MS) break;
    }
    for (const record of known.values()) if (matches(record, filter)) found.push(record);
  }
  return found.toSorted((a, b) => arrivalOf(a) - arrivalOf(b)).slice(-limit);
}

const kindsOf = ({ status, className }: DeliveryFilter): ReadonlyArray<RecordKind> =>
  status === "answered" || status === "dead" || className !== undefined
    ? ["taken"]
    : ["taken", "refused"];

/**
 * The records of one request, joined by their ids: itself, its parts, and its redeliveries. Empty:
 * the log does not have it, or not any more. Rejects with `BrokerUnavailable`.
 */
export async function findDelivery(
  log: Pick<DeliveryLogShape, "since">,
  id: string,
): Promise<ReadonlyArray<DeliveryRecord>> {
  const timeMs = timeOfDelivery(id);
  if (timeMs === undefined) return [];
  const known = new Map<string, DeliveryRecord>();
  for (const kind of ["taken", "refused"] as const)
    for await (const records of log.since(kind, timeMs - LATE_MS))
      for (const record of records)
        if (record.id === id || requestOf(record.id) === id || record.of === id)
          known.set(record.id, joinRecords(known.get(record.id), record));
  return [...known.values()];
}
