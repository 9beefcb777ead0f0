/**
 * Removes an agent's data from the broker: inputs, timers, events before the one that ended its
 * life, snapshots, dead letters, delivery records, and the blobs of all of them. Called by
 * `agents erase`, after `endLife`.
 *
 * 1. Each message is deleted singly, which makes the server overwrite its bytes. A purge only drops
 *    the reference, and the bytes stay in their block until it is rewritten.
 * 2. Processed inputs have left the stream, but their bytes may remain in its blocks. Compacting
 *    the head of the inbox removes those before its first waiting message. Bytes behind an older
 *    waiting input, of another agent, stay until the server rewrites the block; `doneInputsGone` is
 *    then false. The same happens, undetected, to snapshots that newer ones have replaced, and to
 *    fired timers, which contain only the agent's name and a schedule's id.
 * 3. Blobs are found by the claim checks in the messages, and by their names' prefix, because
 *    processed inputs have no message. Long names are stored cut to 512 bytes and hashed. Of agents
 *    with names that long, only blobs with a claim check are found.
 * 4. A batch of delivery records is one message with those of other agents. Those are stored again,
 *    as the newest batch, before the message is deleted.
 * 5. For each deletion the server writes the message's block anew, up to 8 MB, and stores nothing
 *    in the stream meanwhile. Other agents' writes get as much time as the deletions.
 */
import { setTimeout as delay } from "node:timers/promises";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type { Purged } from "../../core/journal/Purged.ts";
import { shardOf, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { decodeRecords, encodeRecords, type RecordBatch } from "../../schemas/RecordBatch.ts";
import { CLAIM_CHECK_AREAS, findClaimCheck, claimCheckPrefix } from "./layout/claimCheck.ts";
import { ApiRefusal } from "./client/JetStreamApi.ts";
import type { NatsShape } from "./client/Nats.ts";
import { blobNameOf, blobStores, type BlobStore } from "./layout/blobStores.ts";
import { decodeBlobEntry } from "./NatsBlobs.ts";

/**
 * `keepEventsFrom`: the first event that stays. Rejects with `BrokerUnavailable` or `ApiRefusal`
 * (the user may not delete), after which another run continues; or with `CorruptFrame` when a
 * blob's entry is damaged, so that its chunks cannot be found.
 */
export async function purgeAgent(
  nats: NatsShape,
  id: AgentId,
  options: { readonly keepEventsFrom: Sequence },
): Promise<Purged> {
  const { subjects } = nats;
  const group = subjects.groupOf(id);
  const inbox = subjects.streamOf("inbox", group);
  const lastSeq = (await stateOf(nats, inbox)).last_seq;
  const claimed = new Set<string>();
  const erase = (stream: string, subject: string, toSeq?: number): Promise<number> =>
    eraseMessages(nats, { stream, subject, toSeq, claimed });
  const { timers, inputs } = await purgeInputs(nats, id, claimed);
  const events = await erase(
    subjects.streamOf("journal", group),
    subjects.journal(id),
    options.keepEventsFrom - 1,
  );
  const images = subjects.streamOf("snapshots", group);
  const snapshots =
    (await erase(images, subjects.snapshot(id))) + (await erase(images, subjects.base(id)));
  await erase(images, subjects.quarantine(id));
  const deadLetters = await erase(subjects.stream.dead, subjects.dead(id));
  await eraseDeliveries(nats, id);
  const blobs = await eraseBlobs(nats, id, claimed);
  const doneInputsGone = (await compactHead(nats, inbox)) > lastSeq;
  await compactHead(nats, subjects.streamOf("timers", group));
  return { inputs, timers, events, snapshots, deadLetters, blobs, doneInputsGone };
}

/** Removes the agent's waiting inputs and timers. Adds the blobs of these to `claimed`. */
export async function purgeInputs(
  nats: NatsShape,
  id: AgentId,
  claimed?: Set<string>,
): Promise<Pick<Purged, "inputs" | "timers">> {
  const { subjects, shards } = nats;
  const shard = shardOf(id, shards);
  const group = subjects.groupOfShard(shard);
  const erase = (which: "inbox" | "timers", subject: string): Promise<number> => {
    const stream = subjects.streamOf(which, group);
    return eraseMessages(nats, { stream, subject, ...(claimed === undefined ? {} : { claimed }) });
  };
  // In the order in which a timer moves, so that none is missed.
  const armed = await erase("timers", subjects.timers(shard, id));
  const due = await erase("timers", subjects.due(shard, id));
  return { timers: armed + due, inputs: await erase("inbox", subjects.inbox(shard, id)) };
}

interface Messages {
  readonly stream: string;
  readonly subject: string;
  /** The last sequence to erase; undefined for all. */
  readonly toSeq?: number | undefined;
  /** Receives the names of the messages' blobs. */
  readonly claimed?: Set<string>;
}

async function eraseMessages(
  nats: NatsShape,
  { stream, subject, toSeq, claimed }: Messages,
): Promise<number> {
  if (toSeq !== undefined && toSeq < 1) return 0;
  const range = { fromSeq: 1, ...(toSeq === undefined ? {} : { toSeq }) };
  let count = 0;
  for await (const { seq, data } of nats.reader.messages(stream, subject, range)) {
    const blob = findClaimCheck(data)?.blob; // the blob of a damaged claim check is found by its prefix
    if (blob !== undefined) claimed?.add(blob);
    const startMs = performance.now();
    await deleteMessage(nats, stream, seq);
    count++;
    await delay(performance.now() - startMs); // rule 5
  }
  return count;
}

/** Rule 4. Refused requests belong to no agent. */
async function eraseDeliveries(nats: NatsShape, id: AgentId): Promise<void> {
  const { subjects, publisher, reader } = nats;
  const stream = subjects.stream.deliveries;
  const subject = subjects.delivery("taken");
  const { last_seq: toSeq } = await stateOf(nats, stream);
  if (toSeq === 0) return;
  for await (const { seq, data } of reader.messages(stream, subject, { fromSeq: 1, toSeq })) {
    const { by, records } = readRecords(data);
    const others = records.filter(({ agent }) => agent?.[0] !== id.class || agent[1] !== id.name);
    if (others.length === records.length) continue;
    if (others.length > 0) {
      const outcome = await publisher.publish(subject, encodeRecords({ by, records: others }));
      // Another run continues. Records that were stored after all are there twice, and are joined.
      if (outcome._tag !== "Stored") throw new BrokerUnavailable({ message: outcome.message });
    }
    await deleteMessage(nats, stream, seq);
  }
}

/** A batch that can't be read names no agent. */
function readRecords(data: Uint8Array): RecordBatch {
  try {
    return decodeRecords(data);
  } catch {
    return { by: "", records: [] };
  }
}

async function deleteMessage(nats: NatsShape, stream: string, seq: Sequence): Promise<void> {
  try {
    await nats.api.call(`STREAM.MSG.DELETE.${stream}`, { seq });
  } catch (error) {
    // Acked meanwhile, or deleted by another run.
    if (error instanceof ApiRefusal && (await nats.reader.byLeader(stream, { seq })) === undefined)
      return;
    throw error;
  }
}

async function eraseBlobs(
  nats: NatsShape,
  id: AgentId,
  claimed: ReadonlySet<string>,
): Promise<number> {
  let count = 0;
  for (const store of blobStores(nats.subjects)) count += await eraseFrom(nats, store, id, claimed);
  return count;
}

async function eraseFrom(
  nats: NatsShape,
  { stream, chunksOf, entryOf }: BlobStore,
  id: AgentId,
  claimed: ReadonlySet<string>,
): Promise<number> {
  const prefixes = CLAIM_CHECK_AREAS.map((area) => claimCheckPrefix(area, id));
  const entries = new Set([...claimed].map(entryOf));
  for await (const subject of subjectsOf(nats, stream, entryOf("*")))
    if (prefixes.some((prefix) => blobNameOf(subject).startsWith(prefix))) entries.add(subject);
  let count = 0;
  for (const subject of entries) {
    for await (const { data } of nats.reader.messages(stream, subject, { fromSeq: 1 })) {
      const { nuid } = decodeBlobEntry(data);
      await eraseMessages(nats, { stream, subject: chunksOf(nuid) });
    }
    count += await eraseMessages(nats, { stream, subject });
  }
  return count;
}

/** The subjects that match the filter; the server returns 100,000 per page. */
async function* subjectsOf(
  nats: NatsShape,
  stream: string,
  subjects_filter: string,
): AsyncGenerator<string, void, void> {
  interface Page {
    readonly total?: number;
    readonly state: { readonly subjects?: Readonly<Record<string, number>> };
  }
  for (let offset = 0; ;) {
    const body = { subjects_filter, offset };
    const page = await nats.api.call<Page>(`STREAM.INFO.${stream}`, body);
    const found = Object.keys(page.state.subjects ?? {});
    yield* found;
    offset += found.length;
    if (found.length === 0 || offset >= (page.total ?? 0)) return;
  }
}

/** Rule 2. Messages stored meanwhile have higher sequences and stay. Returns the first sequence. */
async function compactHead(nats: NatsShape, stream: string): Promise<number> {
  const { first_seq: seq } = await stateOf(nats, stream);
  if (seq > 1) await nats.api.call(`STREAM.PURGE.${stream}`, { seq });
  return seq;
}

interface StreamState {
  readonly first_seq: number;
  readonly last_seq: number;
}

const stateOf = async (nats: NatsShape, stream: string): Promise<StreamState> =>
  (await nats.api.call<{ state: StreamState }>(`STREAM.INFO.${stream}`)).state;
