/**
 * The receipt of an erasure: what was removed of which agents, where and when, and what could not
 * be reached. `agents erase --receipt <file>` writes it, `agents erase --verify <file>` looks
 * again. It has nothing of the agents but their addresses, numbers and hashes.
 *
 *     {"format":"agents.erasure","v":1,"time":ISO
 *     8601,"namespace":…,"agents":[…],"away":[…],"backups":[…],"sha256":…}
 *
 * `sha256` is that of the JSON text of the rest, without spaces: a receipt that was changed by
 * mistake is found. It is not a signature. A reader refuses any other `v`.
 */
import * as Schema from "effect/Schema";
import { CorruptFrame, decoded, UnknownVersion } from "./Frame.ts";
import { jsonObject } from "./jsonObject.ts";

const FORMAT = "agents.erasure";
const ERASURE_VERSION = 1;

/** A place in the archive, and its present content. */
const ErasedPart = Schema.Struct({
  segment: Schema.String,
  offset: Schema.Number,
  bytes: Schema.Number,
  /** SHA-256 of the earlier content. */
  sha256: Schema.String,
  /** SHA-256 of the content that replaced it. */
  now: Schema.String,
});

const ErasedAgent = Schema.Struct({
  class: Schema.String,
  name: Schema.String,
  /** Sequence of the event without content that stays in its journal; 0: it had no journal. */
  end: Schema.Number,
  /** Numbers of events, inputs, timers, snapshots, dead letters and blobs. */
  removed: Schema.Record(Schema.String, Schema.Number),
  archived: Schema.Array(ErasedPart),
  /** Hosts that removed their local files, and those that did not answer. */
  hosts: Schema.Array(Schema.String),
  silent: Schema.Array(Schema.String),
});

/** A backup that has lines of the agents. */
const HoldingBackup = Schema.Struct({
  folder: Schema.String,
  /** Absent in backups of early releases. */
  id: Schema.optionalKey(Schema.String),
  /** When it began, ISO 8601. */
  time: Schema.String,
  lines: Schema.Number,
});

export const ErasureReceipt = Schema.Struct({
  time: Schema.String,
  namespace: Schema.String,
  /** URL of the archive that was named. Absent: none. */
  archive: Schema.optionalKey(Schema.String),
  agents: Schema.Array(ErasedAgent),
  /** Servers that held copies and were away: their files may have bytes of the agents. */
  away: Schema.Array(Schema.String),
  /** The named backups that hold the agents still. */
  backups: Schema.Array(HoldingBackup),
});
export type ErasureReceipt = typeof ErasureReceipt.Type;
export type ErasedAgent = typeof ErasedAgent.Type;
export type ErasedPart = typeof ErasedPart.Type;
export type HoldingBackup = typeof HoldingBackup.Type;

type Sha256 = (text: string) => string;

export const encodeReceipt = (receipt: ErasureReceipt, sha256: Sha256): string => {
  const content = { format: FORMAT, v: ERASURE_VERSION, ...receipt };
  const sum = sha256(JSON.stringify(content));
  return JSON.stringify({ ...content, sha256: sum }, undefined, 2);
};

const decode = Schema.decodeUnknownResult(ErasureReceipt);

/** Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeReceipt(text: string, sha256: Sha256): ErasureReceipt {
  const { sha256: sum, ...content } = jsonObject(text, "it is not JSON");
  const { v } = content;
  if (content["format"] !== FORMAT)
    throw new CorruptFrame({ message: "it is not a receipt of agents erase" });
  if (v !== ERASURE_VERSION)
    throw new UnknownVersion({
      version: typeof v === "number" ? v : NaN,
      message: `the receipt is of version ${String(v)}; this release reads ${ERASURE_VERSION}`,
    });
  if (sum !== sha256(JSON.stringify(content)))
    throw new CorruptFrame({ message: "it is not as it was written: its own SHA-256 differs" });
  return decoded(decode(content), "a receipt of agents erase");
}
