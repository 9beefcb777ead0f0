/**
 * The delivery log in two streams with limits of age and size, one for each kind of record. A
 * message is a batch of a process. Batches are published with an ack that nobody waits for: it only
 * tells whether the batch is to be counted as dropped.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import {
  DeliveryLog,
  RECORD_KINDS,
  type DeliveryLogShape,
  type RecordKind,
} from "../../core/delivery/DeliveryLog.ts";
import { RecordBuffer } from "../../core/delivery/RecordBuffer.ts";
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";
import { decodeRecords, encodeRecords } from "../../schemas/RecordBatch.ts";
import { ifReadable } from "../../schemas/Frame.ts";
import { machineTime } from "../node/MachineTime.ts";
import { unavailable } from "./client/JetStreamApi.ts";
import { Nats, type NatsShape } from "./client/Nats.ts";
import { subscribe } from "./client/subscribe.ts";

/** Messages of one look backwards: some thousand records. */
const LOOK_BACK = 32;

export function makeNatsDeliveryLog(nats: NatsShape): DeliveryLogShape {
  const { subjects, publisher, connection } = nats;
  const by = machineTime.id();
  // Not `async`: the records are released once they are encoded.
  const buffer = new RecordBuffer(machineTime, (kind, records) =>
    publisher
      .publish(subjects.delivery(kind), encodeRecords({ by, records }))
      .then(({ _tag }) => _tag === "Stored"),
  );
  return {
    record: (record) => buffer.record(record),
    flush: () => buffer.flush(),
    dropped: () => buffer.dropped,
    recent: (kind) => recent(nats, kind),
    since: (kind, timeMs) => since(nats, kind, timeMs),
    follow: (handler) => {
      const subscriptions = RECORD_KINDS.map((kind) =>
        subscribe(connection.client, subjects.delivery(kind), (error, message) => {
          if (error === null) handler(read(message.data));
        }),
      );
      return () => {
        for (const subscription of subscriptions) subscription.unsubscribe();
      };
    },
  };
}

async function* recent(
  nats: NatsShape,
  kind: RecordKind,
): AsyncGenerator<ReadonlyArray<DeliveryRecord>, void, void> {
  try {
    const { first_seq: first, last_seq: last } = await stateOf(nats, kind);
    for (let toSeq = last; toSeq >= first; toSeq -= LOOK_BACK) {
      const range = { fromSeq: Math.max(first, toSeq - LOOK_BACK + 1), toSeq };
      const batches: Array<ReadonlyArray<DeliveryRecord>> = [];
      for await (const { data } of messages(nats, kind, range)) batches.push(read(data));
      for (const batch of batches.toReversed()) yield batch.toReversed();
    }
  } catch (error) {
    throw unavailable(error);
  }
}

async function* since(
  nats: NatsShape,
  kind: RecordKind,
  timeMs: number,
): AsyncGenerator<ReadonlyArray<DeliveryRecord>, void, void> {
  try {
    const fromSeq = await firstSince(nats, kind, timeMs);
    for await (const { data } of messages(nats, kind, { fromSeq })) yield read(data);
  } catch (error) {
    throw unavailable(error);
  }
}

/** The first sequence that was stored at `timeMs` or later, found by halving. */
async function firstSince(nats: NatsShape, kind: RecordKind, timeMs: number): Promise<number> {
  const stream = nats.subjects.stream[STREAMS[kind]];
  const subject = nats.subjects.delivery(kind);
  const state = await stateOf(nats, kind);
  let from = state.first_seq;
  let to = state.last_seq + 1;
  while (from < to) {
    const middle = Math.floor((from + to) / 2);
    const found = await nats.reader.byLeader(stream, { seq: middle, next_by_subj: subject });
    if (found === undefined || found.storedMs >= timeMs) to = middle;
    else from = found.seq + 1;
  }
  return from;
}

const STREAMS = { taken: "deliveries", refused: "refusals" } as const;

const messages = (
  { subjects, reader }: NatsShape,
  kind: RecordKind,
  range: { readonly fromSeq: number; readonly toSeq?: number },
) => reader.messages(subjects.stream[STREAMS[kind]], subjects.delivery(kind), range);

interface StreamState {
  readonly first_seq: number;
  readonly last_seq: number;
}

const stateOf = async (nats: NatsShape, kind: RecordKind): Promise<StreamState> =>
  (await nats.api.streamInfo<{ readonly state: StreamState }>(nats.subjects.stream[STREAMS[kind]]))
    .state;

/** A batch of a newer release, or a damaged one, has nothing to show. */
const read = (data: Uint8Array): ReadonlyArray<DeliveryRecord> =>
  ifReadable(() => decodeRecords(data).records) ?? [];

/** What is recorded when the process stops is stored first. */
export const layer: Layer.Layer<DeliveryLog, never, Nats> = Layer.effect(
  DeliveryLog,
  Effect.flatMap(Nats, (nats) =>
    Effect.acquireRelease(
      Effect.sync(() => makeNatsDeliveryLog(nats)),
      (log) => Effect.promise(() => log.flush()),
    ),
  ),
);
