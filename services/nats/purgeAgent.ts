/**
 * Removes what the broker keeps of one agent: inputs, timers, events before the one that ended its life, snapshots,
 * dead letters, and the blobs of all of them. Called by `agents erase`, after the agent's life was ended (`endLife`).
 *
 * 1. Each message is deleted by itself, which makes the server write over its bytes; a purge only forgets where they
 *    were, and their block keeps them until it is rewritten.
 * 2. Inputs that were done are not in the stream any more, but their bytes may be in its blocks. The head of the inbox
 *    is compacted therefore: that drops what lies before the first message that waits. What lies behind an older one,
 *    another agent's input, stays until the server rewrites the block, and `doneInputsGone` is false. The same
 *    goes, unseen by us, for snapshots that newer ones have pushed out, and for timers that fired, which hold no more
 *    than the agent's name and a schedule's id.
 * 3. Blobs are found by the claims in the messages, and by their names' prefix: those of inputs that are done have no
 *    message any more. A name is cut and hashed past 512 bytes: of agents with names that long only the claimed ones are found.
 */
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import { shardOf } from "../../schemas/Address.ts";
import { CLAIM_AREAS, claimIn, claimPrefix } from "./claimCheck.ts";
import { ApiRefusal } from "./JetStreamApi.ts";
import type { NatsShape } from "./Nats.ts";
import { blobNameOf, blobStores, type BlobStore } from "./blobStores.ts";
import { decodeBlobEntry } from "./NatsBlobs.ts";

/** Deletions under way: enough to hide the round trip, few enough that others' writes go between. */
const DELETIONS_AT_ONCE = 16;

export interface Purged {
  readonly inputs: number;
  readonly timers: number;
  readonly events: number;
  readonly snapshots: number;
  readonly deadLetters: number;
  readonly blobs: number;
  /** Rule 2. */
  readonly doneInputsGone: boolean;
}

/**
 * Rejects with `BrokerUnavailable`, `ApiRefusal` (the user may not delete), doing it again goes on; or with `CorruptFrame`: a blob's
 * entry is damaged, and where its bytes lie is not known.
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
  const snapshots = await erase(subjects.streamOf("snapshots", group), subjects.snapshot(id));
  const deadLetters = await erase(subjects.stream.dead, subjects.dead(id));
  const blobs = await eraseBlobs(nats, id, claimed);
  const doneInputsGone = (await compactHead(nats, inbox)) > lastSeq;
  await compactHead(nats, subjects.streamOf("timers", group));
  return { inputs, timers, events, snapshots, deadLetters, blobs, doneInputsGone };
}

/** Nothing that waits for the agent comes to it any more; `claimed` gets the blobs that then belong to nothing. */
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
  // In the order in which a timer moves on, so that none is missed.
  const armed = await erase("timers", subjects.timers(shard, id));
  const due = await erase("timers", subjects.due(shard, id));
  return { timers: armed + due, inputs: await erase("inbox", subjects.inbox(shard, id)) };
}

interface Messages {
  readonly stream: string;
  readonly subject: string;
  /** The last one that goes; undefined: all. */
  readonly toSeq?: number | undefined;
  /** Gets the names of blobs that they stood for. */
  readonly claimed?: Set<string>;
}

async function eraseMessages(
  nats: NatsShape,
  { stream, subject, toSeq, claimed }: Messages,
): Promise<number> {
  if (toSeq !== undefined && toSeq < 1) return 0;
  const range = { fromSeq: 1, ...(toSeq === undefined ? {} : { toSeq }) };
  let count = 0;
  let group: Array<Promise<void>> = [];
  for await (const { seq, data } of nats.reader.messages(stream, subject, range)) {
    const blob = claimIn(data)?.blob; // a damaged one's is found by prefix
    if (blob !== undefined) claimed?.add(blob);
    group.push(deleteMessage(nats, stream, seq));
    count++;
    if (group.length < DELETIONS_AT_ONCE) continue;
    await Promise.all(group);
    group = [];
  }
  await Promise.all(group);
  return count;
}

async function deleteMessage(nats: NatsShape, stream: string, seq: Sequence): Promise<void> {
  try {
    await nats.api.call(`STREAM.MSG.DELETE.${stream}`, { seq });
  } catch (error) {
    // Done and acked meanwhile, or deleted by another run of the same.
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
  const prefixes = CLAIM_AREAS.map((area) => claimPrefix(area, id));
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

/** Names of the subjects that match, 100,000 a page. */
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

/** Rule 2. What is stored meanwhile has a higher sequence and stays. Gives the first sequence. */
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
