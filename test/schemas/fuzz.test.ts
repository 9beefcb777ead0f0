/**
 * The decoders of everything that is stored or sent: whatever the bytes are, they are decoded or refused by a tagged error, and
 * what is decoded is what its schema says. `kit/fuzz.ts` says how to run it for longer.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseClientFrame } from "../../core/agent/protocol.ts";
import { agentId, InvalidAddress } from "../../schemas/Address.ts";
import {
  agentFileEvent,
  AgentFileReader,
  agentFileHead,
  readAgentFileHead,
} from "../../schemas/AgentFile.ts";
import {
  decodeEntry,
  decodeManifest,
  encodeEntry,
  encodeManifest,
} from "../../schemas/BackupFile.ts";
import { decodeMessage, encodeMessage } from "../../schemas/Call.ts";
import { decodeDeadLetter, encodeDeadLetter } from "../../schemas/DeadLetter.ts";
import {
  CorruptFrame,
  decodeFrame,
  encodeFrame,
  encodeFrameJson,
  UnknownVersion,
} from "../../schemas/Frame.ts";
import { decodeEnvelope, encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { decodeEvent, encodeEvent } from "../../schemas/JournalEvent.ts";
import { applyPageDelta, PageDeltaWriter } from "../../schemas/PageDelta.ts";
import { decodeSnapshot, encodeSnapshot } from "../../schemas/Snapshot.ts";
import { decodeSignal, encodeSignal } from "../../schemas/WorkflowSignal.ts";
import { parseServerFrame } from "../../services/client/serverFrame.ts";
import { readClaim } from "../../services/nats/claims.ts";
import { decodeBlobEntry } from "../../services/nats/NatsBlobs.ts";
import { Random } from "../sim/Random.ts";
import { harm } from "../faults/damage/harm.ts";
import { fuzz, fuzzTimeoutMs } from "../kit/fuzz.ts";
import { USUAL } from "./usualHead.ts";

/** A second for all of them. */
const SUITE_MS = 70;
const TIMEOUT_MS = fuzzTimeoutMs(SUITE_MS);

const ID = agentId("Ledger", "a");
const BODY = Buffer.from("body");
const SNAPSHOT = {
  agent: ["Ledger", "a"],
  seq: 1,
  epoch: 1,
  time: 1,
  state: { a: 1 },
  done: [["k", 1, 1]],
  begun: [["l", 1, 2]],
  pages: 0,
} as const;
const INPUT = {
  key: "github:1",
  kind: "webhook",
  time: 1,
  headers: { a: "b" },
  reply: { subject: "s", id: "1" },
} as const;
const LETTER = { agent: ["Ledger", "a"], seq: 1, reason: "attempts", host: "h", time: 1 } as const;
const IMAGE = new Uint8Array(1024);

function delta(): Uint8Array {
  const writer = new PageDeltaWriter(512);
  const after = Uint8Array.from(IMAGE).fill(7, 10, 20).fill(8, 600, 700);
  const view = (bytes: Uint8Array, at: number) => ({
    bytes,
    words: new Int32Array(bytes.buffer),
    at,
  });
  writer.begin();
  for (const page of [1, 2])
    writer.add(page, view(IMAGE, (page - 1) * 512), view(after, (page - 1) * 512));
  return writer.finish({ pagesBefore: 2, pagesKept: 2, pages: 2 });
}

const text = (decode: (line: string) => unknown) => (bytes: Uint8Array) =>
  decode(Buffer.from(bytes).toString("latin1"));

/** Each with something that it decodes. */
const DECODERS: ReadonlyArray<readonly [name: string, good: Uint8Array, decode: (bytes: Uint8Array) => unknown]> = [
  ["a frame", encodeFrame({ a: 1 }, BODY), decodeFrame],
  ["an event", encodeEvent(USUAL, delta()), decodeEvent],
  ["a snapshot", encodeSnapshot(SNAPSHOT, BODY), decodeSnapshot],
  ["an input", encodeEnvelope(INPUT, BODY), decodeEnvelope],
  ["a dead letter", encodeDeadLetter(LETTER, BODY), decodeDeadLetter],
  ["a message of the bus", encodeMessage({ kind: "taken" }, BODY), decodeMessage],
  ["a page delta", delta(), (bytes) => applyPageDelta(IMAGE, bytes)],
  ["a workflow's signal", encodeSignal({ kind: "event", type: "t", time: 1 }), decodeSignal],
  ["a claim", encodeFrame({ claim: { blob: "b", bytes: 1 } }), readClaim],
  ["a blob's entry", Buffer.from('{"name":"n","nuid":"x","size":1}'), decodeBlobEntry],
  ["a backup's manifest", Buffer.from(encodeManifest({ namespace: "n", time: "t", inputs: 1, events: 1, letters: 1 })), text(decodeManifest)],
  ["a backup's entry", Buffer.from(encodeEntry({ id: ID, seq: 1, storedMs: 1, data: BODY })), text(decodeEntry)],
  ["an export's head", Buffer.from(agentFileHead(ID, 1)), text(readAgentFileHead)],
  ["an export's event", Buffer.from(agentFileEvent({ seq: 1, storedMs: 1, data: BODY })), text((line) => new AgentFileReader().read(line))],
  ["a client's frame", Buffer.from('{"type":"rpc","id":"1","method":"m","args":[]}'), text(parseClientFrame)],
  ["a server's frame", Buffer.from('{"type":"cf_agent_state","state":{},"seq":1}'), text(parseServerFrame)],
]; // prettier-ignore

const isRefusal = (error: unknown): boolean =>
  error instanceof CorruptFrame ||
  error instanceof UnknownVersion ||
  error instanceof InvalidAddress;

const anyText = fc
  .uint8Array({ maxLength: 60 })
  .map((bytes) => Buffer.from(bytes).toString("latin1"));
const json = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.constantFrom({ toString: 1 }, { valueOf: null }, Infinity, -1, "", "€")); // prettier-ignore

/** A frame's first line, or all of it where it is JSON. */
function jsonOf(good: Uint8Array): string | undefined {
  const all = Buffer.from(good).toString("latin1");
  if (!all.startsWith("{")) return undefined;
  return all.startsWith('{"v":') ? all.split("\n")[0]! : all;
}

/** A good one's JSON line with some fields replaced, added or taken away, and the checksum of that. */
function changed(good: Uint8Array, fields: Readonly<Record<string, unknown>>, gone: ReadonlyArray<string>): Uint8Array {
  const line = jsonOf(good);
  if (line === undefined) return good;
  const { v, crc, ...head } = JSON.parse(line) as Record<string, unknown>;
  const made: Record<string, unknown> = { ...head, ...fields };
  for (const key of gone) delete made[key];
  if (crc === undefined) return Buffer.from(JSON.stringify(v === undefined ? made : { ...made, v }));
  return encodeFrame({ ...made, at: 1 }, BODY);
} // prettier-ignore

const keysOf = (good: Uint8Array): string[] =>
  Object.keys(JSON.parse(jsonOf(good) ?? "{}") as object);

test.each(DECODERS)(
  "%s is decoded or refused, whatever its bytes are",
  async (name, good, decode) => {
    expect(() => decode(good)).not.toThrow();
    const keys = [...keysOf(good), "other", "__proto__"];
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 400 }),
      fc.integer().map((seed) => harm(good, new Random(seed)).data),
      fc
        .tuple(fc.dictionary(fc.constantFrom(...keys), json, { maxKeys: 3 }), fc.subarray(keys, { maxLength: 2 }))
        .map(([fields, gone]) => changed(good, fields, gone)),
      anyText.map((line) => encodeFrameJson(`{${line}`, BODY)),
      fc.json({ maxDepth: 4 }).map((line) => Buffer.from(line)),
    );
    await fuzz(
      name,
      SUITE_MS,
      fc.property(bytes, (made) => {
        try {
          decode(made);
        } catch (error) {
          if (!isRefusal(error)) throw error;
        }
      }),
    );
  },
  TIMEOUT_MS,
); // prettier-ignore
