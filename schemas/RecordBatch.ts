/**
 * A batch of delivery records as the delivery log stores it: a `Frame` without bytes, whose head
 * has the records by columns.
 *
 *     {"by":"…","count":3,"same":{"route":"/hook",…},"each":{"id":["…","…","…"],"seq":[7,null,8],…}}
 *
 * 1. `same` has the fields that are alike in all records, `each` has the values of the others, one
 *    for each record in order. Null: that record lacks the field.
 * 2. Records of one process mostly share their route, provider, method and status, so a usual one
 *    takes 120 bytes. As an object it takes 300, and the log's bounded space holds fewer of them.
 * 3. A batch that has `records`, a list of objects, instead of columns is read as well: releases up
 *    to 0.32 write it.
 */
import * as Schema from "effect/Schema";
import { DeliveryRecord } from "./DeliveryRecord.ts";
import { CorruptFrame, decoded, decodeFrame, encodeFrame } from "./Frame.ts";

const RecordBatch = Schema.Struct({
  /** Id of the process that wrote them. */
  by: Schema.String,
  records: Schema.Array(DeliveryRecord),
});
export type RecordBatch = typeof RecordBatch.Type;

const Columns = Schema.Struct({
  by: Schema.String,
  count: Schema.Number,
  same: Schema.Record(Schema.String, Schema.Unknown),
  each: Schema.Record(Schema.String, Schema.Array(Schema.Unknown)),
});

const FIELDS = Object.keys(DeliveryRecord.fields) as ReadonlyArray<keyof DeliveryRecord>;

/** Rule 1. */
export function encodeRecords({ by, records }: RecordBatch): Uint8Array {
  const same: Record<string, unknown> = {};
  const each: Record<string, ReadonlyArray<unknown>> = {};
  for (const field of FIELDS) {
    const first = records[0]?.[field];
    if (records.every((record) => record[field] === first)) same[field] = first;
    else each[field] = records.map((record) => record[field]);
  }
  return encodeFrame({ by, count: records.length, same, each });
}

const RECORDS = "a batch of delivery records";
const decodeBatch = Schema.decodeUnknownResult(RecordBatch);
const decodeColumns = Schema.decodeUnknownResult(Columns);

/** Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeRecords(bytes: Uint8Array): RecordBatch {
  const { head } = decodeFrame(bytes);
  return decoded(decodeBatch("records" in head ? head : batchOf(head)), RECORDS);
}

function batchOf(head: unknown): unknown {
  const { by, count, same, each } = decoded(decodeColumns(head), RECORDS);
  const columns = Object.entries(each);
  if (columns.some(([, values]) => values.length !== count))
    throw new CorruptFrame({
      message: `not ${RECORDS}: a column does not have one value for each of ${count} records`,
    });
  const recordAt = (at: number): Readonly<Record<string, unknown>> => {
    const own = columns.filter(([, values]) => values[at] !== null);
    return { ...same, ...Object.fromEntries(own.map(([field, values]) => [field, values[at]])) };
  };
  return { by, records: Array.from({ length: count }, (_, at) => recordAt(at)) };
}
