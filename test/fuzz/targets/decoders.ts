/** The decoders of all that is stored or sent: they decode, or refuse by a declared error. */
import { parseClientFrame } from "../../../core/connection/protocol.ts";
import { agentId, InvalidAddress, type Sequence } from "../../../schemas/Address.ts";
import { agentFileEvent, AgentFileReader, agentFileHead, readAgentFileHead } from "../../../schemas/AgentFile.ts"; // prettier-ignore
import { decodeEntry, decodeManifest, encodeEntry, encodeManifest } from "../../../schemas/BackupFile.ts"; // prettier-ignore
import { decodeMessage, encodeMessage } from "../../../schemas/bus/message.ts";
import { decodeDeadLetter, encodeDeadLetter } from "../../../schemas/DeadLetter.ts";
import { CorruptFrame, decodeFrame, encodeFrame, UnknownVersion } from "../../../schemas/Frame.ts";
import { decodeEnvelope, encodeEnvelope } from "../../../schemas/InboxEnvelope.ts";
import { decodeEvent, encodeEvent } from "../../../schemas/JournalEvent.ts";
import { PageDeltaWriter } from "../../../schemas/PageDelta.ts";
import { applyPageDelta, changedPages } from "../../kit/pages.ts";
import { decodeSnapshot, encodeSnapshot } from "../../../schemas/Snapshot.ts";
import { decodeSignal, encodeSignal } from "../../../schemas/WorkflowSignal.ts";
import { parseServerFrame } from "../../../services/client/serverFrame.ts";
import { readClaimCheck } from "../../../services/nats/layout/claimCheck.ts";
import { HeaderText } from "../../../services/nats/client/HeaderText.ts";
import { isLive, leaseKey, leaseOf } from "../../../services/nats/layout/leaseMessage.ts";
import { decodeBlobEntry } from "../../../services/nats/NatsBlobs.ts";
import { encodeBatch, readBatch } from "../../../services/nats/layout/batchEntries.ts";
import { USUAL } from "../../schemas/usualHead.ts";
import { Broken, choose, partsOf, pure, joined, type FuzzTarget } from "../Target.ts";

const ID = agentId("Ledger", "a");
const BODY = Buffer.from("body");
const SNAPSHOT = {
  agent: ["Ledger", "a"], seq: 1, epoch: 1, time: 1, state: { a: 1 }, done: [["k", 1, 1]], begun: [["l", 1, 2]], pages: 0,
} as const; // prettier-ignore
const INPUT = {
  key: "github:1", kind: "webhook", time: 1, headers: { a: "b" }, reply: { subject: "s", id: "1" },
} as const; // prettier-ignore
const LETTER = { agent: ["Ledger", "a"], seq: 1, reason: "attempts", host: "h", time: 1 } as const;
const IMAGE = new Uint8Array(1024);

function delta(): Uint8Array {
  const writer = new PageDeltaWriter(512);
  const after = Uint8Array.from(IMAGE).fill(7, 10, 20).fill(8, 600, 700);
  const view = (bytes: Uint8Array, at: number) => ({ bytes, words: new Int32Array(bytes.buffer), at }); // prettier-ignore
  writer.begin();
  for (const page of [1, 2])
    writer.add(page, view(IMAGE, (page - 1) * 512), view(after, (page - 1) * 512));
  return writer.finish({ pagesBefore: 2, pagesKept: 2, pages: 2 });
}

type Decode = (bytes: Uint8Array) => unknown;
const text =
  (decode: (line: string) => unknown): Decode =>
  (bytes) =>
    decode(Buffer.from(bytes).toString());

const isRefusal = (error: unknown): boolean =>
  error instanceof CorruptFrame ||
  error instanceof UnknownVersion ||
  error instanceof InvalidAddress;

/** Each with something that it decodes. */
function decoders(
  name: string,
  rows: ReadonlyArray<readonly [good: Uint8Array, decode: Decode]>,
): FuzzTarget {
  const seeds = rows.map(([good], which) => choose(which, good));
  // A decoder that refuses what it should read would be fuzzed at its door only.
  for (const [good, decode] of rows) decode(good);
  return {
    name,
    seeds,
    words: ["\n", '{"v":1', '"crc":"', "__proto__", '"claim":', "e30=", "\\u0000", '"end":true'],
    open: pure((input) => {
      const decode = rows[(input[0] ?? 0) % rows.length]![1];
      try {
        decode(input.subarray(1));
      } catch (error) {
        if (!isRefusal(error)) throw error;
      }
    }),
  };
}

/** A delta's image may be larger than a test allocates: it is read, and applied where small. */
const readDelta: Decode = (bytes) => {
  const pages = changedPages(bytes);
  return pages.length > 64 ? pages : applyPageDelta(IMAGE, bytes);
};

function readEntries(bytes: Uint8Array): void {
  let total = 0;
  readBatch(bytes, ({ data, subject }) => void (total += data.length + subject.length));
  if (total > 3 * bytes.length) throw new Broken("a batch's entries are more than its bytes");
}
const BATCH = encodeBatch([{ kind: 1, id: 7, subject: "a.b", data: BODY }, { kind: 2, id: 8, subject: "", data: BODY }], 200); // prettier-ignore

/** Subject, header block and value of a lease's message. */
function readLease(bytes: Uint8Array): void {
  const [subject, block, data] = partsOf(bytes, 3) as [Buffer, Buffer, Buffer];
  const headers = new HeaderText(block.toString());
  const message = { seq: 1 as Sequence, data, header: (name: string) => headers.get(name) };
  void headers.code;
  const key = leaseKey(subject.toString(), "$KV.b.");
  if (key !== undefined && isLive(message)) leaseOf(message, key);
}
const LEASE = joined("$KV.b.shard.7", "NATS/1.0\r\nAgents-Mark: m\r\nAgents-Epoch: 12\r\n\r\n", "host-1"); // prettier-ignore

export const decoderTargets: ReadonlyArray<FuzzTarget> = [
  decoders("stored", [
    [encodeFrame({ a: 1 }, BODY), decodeFrame],
    [encodeEvent(USUAL, delta()), decodeEvent],
    [encodeSnapshot(SNAPSHOT, BODY), decodeSnapshot],
    [encodeEnvelope(INPUT, BODY), decodeEnvelope],
    [encodeDeadLetter(LETTER, BODY), decodeDeadLetter],
    [encodeSignal({ kind: "event", type: "t", time: 1 }), decodeSignal],
  ]),
  decoders("deltas", [[delta(), readDelta]]),
  decoders("files", [
    [Buffer.from(encodeManifest({ namespace: "n", time: "t", inputs: 1, events: 1, letters: 1, shares: 1, files: [] })), text(decodeManifest)],
    [Buffer.from(encodeEntry({ id: ID, seq: 1, storedMs: 1, data: BODY })), text(decodeEntry)],
    [Buffer.from(agentFileHead(ID, 1)), text(readAgentFileHead)],
    [Buffer.from(agentFileEvent({ seq: 1, storedMs: 1, data: BODY })), text((line) => new AgentFileReader().read(line))],
  ]), // prettier-ignore
  decoders("broker", [
    [encodeMessage({ kind: "taken" }, BODY), decodeMessage],
    [BATCH, readEntries],
    [LEASE, readLease],
    [encodeFrame({ claim: { blob: "b", bytes: 1 } }), readClaimCheck],
    [Buffer.from('{"name":"n","nuid":"x","size":1}'), decodeBlobEntry],
  ]),
  decoders("frames", [
    [Buffer.from('{"type":"rpc","id":"1","method":"m","args":[]}'), text(parseClientFrame)],
    [Buffer.from('{"type":"cf_agent_state","state":{}}'), text(parseClientFrame)],
    [Buffer.from('{"type":"cf_agent_state","state":{},"seq":1}'), text(parseServerFrame)],
    [Buffer.from('{"type":"rpc","id":"1","success":true,"result":1,"done":true}'), text(parseServerFrame)],
  ]), // prettier-ignore
];
