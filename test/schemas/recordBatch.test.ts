/** Batches of delivery records: what they carry, what they refuse, and that they stay small. */
import type { Arbitrary } from "fast-check";
import { describe, expect, it } from "vitest";
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";
import { CorruptFrame, encodeFrame } from "../../schemas/Frame.ts";
import { decodeRecords, encodeRecords } from "../../schemas/RecordBatch.ts";
import fc from "../kit/property.ts";

/** Few values of each field, so that columns are often alike, and often lacking. */
const record: Arbitrary<DeliveryRecord> = fc.record(
  {
    id: fc.constantFrom("mx3hamqp-idg06n49", "mx3hamqp-idg06n4a", "mx3hamqp-idg06n4a.1"),
    at: fc.constantFrom(1_796_055_875_233, 0),
    status: fc.constantFrom("answered", "failed", "refused"),
    route: fc.constantFrom("/hook", ""),
    agent: fc.constantFrom<[string, string]>(["Repo", "a"], ["Repo", "null"]),
    seq: fc.constantFrom(0, 7),
    error: fc.constantFrom("", "Error: no"),
  },
  { requiredKeys: ["id", "at", "status"] },
) as Arbitrary<DeliveryRecord>;

describe("a batch of delivery records", () => {
  it("carries the records in order, each with its own fields", () => {
    const batches = fc.array(record, { maxLength: 5 });
    fc.assert(
      fc.property(batches, (records) => {
        // fast-check's records have no prototype.
        const batch = { by: "gateway-1", records: records.map((fields) => ({ ...fields })) };
        expect(decodeRecords(encodeRecords(batch))).toStrictEqual(batch);
      }),
    );
  });

  it("is less than half as long as its records, where they share what records usually share", () => {
    const records = Array.from({ length: 50 }, (_, n) => ({
      id: `mx3hamqp-idg06n${n}`,
      at: 1_796_055_875_233 + n,
      status: "answered" as const,
      time: 1_796_055_875_233,
      route: "/webhooks/github",
      provider: "github",
      method: "POST",
      bytes: 285,
      http: 200,
      ms: 1.5 * n,
      agent: ["CountingAgent", `acme-r-${n}`] as const,
      key: `github:tmx3haiin-1-00000${n}`,
      type: "push",
      seq: n,
    }));
    const { length } = encodeRecords({ by: "gateway-1", records });
    expect(length).toBeLessThan(JSON.stringify(records).length / 2);
  });

  it.each([
    ["a column that is too short", { count: 2, same: {}, each: { id: ["a"] } }],
    ["a column that is no list", { count: 1, same: {}, each: { id: "a" } }],
    ["a status that there is not", { count: 1, same: { id: "a", at: 1, status: "x" }, each: {} }],
    ["neither columns nor records", { count: 1 }],
  ])("refuses %s", (_what, head) => {
    expect(() => decodeRecords(encodeFrame({ by: "gateway-1", ...head }))).toThrow(CorruptFrame);
  });
});
