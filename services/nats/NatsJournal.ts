/**
 * The journal in a JetStream stream, one subject an agent. The port's rules, and how they are upheld:
 *
 * 1. Each append carries `Nats-Expected-Last-Subject-Sequence`: the stream refuses all but the first.
 * 2. One event is one message. Past the payload limit its bytes go to the blob store first and a
 *    claim takes its place; a refused append removes the blob again.
 * 3. `read` goes by `StreamReader.messages`: batches from any replica, the end as the leader knows it.
 * 4. After an ambiguous or a refused append the event that came after `expectedSeq` is looked up
 *    and its bytes are compared (each event carries a unique id). That event never changes, so "ours"
 *    and "another's" are final; "none yet" leads to a second append with the same expectation, which the
 *    stream refuses if the first one is stored meanwhile. So an event is never stored twice, and
 *    `Conflict` is said only when ours was not stored. The first event after, not the last: a new
 *    owner may already have written behind ours.
 *
 * The lookup and `last` ask the leader: a replica that lags would say "none" of what is stored, and
 * cost an activation (a stale `last`) or a round (a needless retry).
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { Blobs, type BlobsShape } from "../../core/journal/Blobs.ts";
import {
  Journal,
  type AppendResult,
  type JournalEntry,
  type JournalShape,
  type StoredEvent,
} from "../../core/journal/Journal.ts";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { WRONG_LAST_SEQUENCE, type PublishOutcome } from "./AckPublisher.ts";
import { newClaimCheck, readClaimCheck, resolveClaimCheck } from "./claimCheck.ts";
import { unavailable } from "./JetStreamApi.ts";
import { Nats, type NatsShape } from "./Nats.ts";
import { retryPause } from "./retryPause.ts";
import type { StoredMessage } from "./StreamReading.ts";

export function makeNatsJournal(nats: NatsShape, blobs: BlobsShape): JournalShape {
  return {
    append: (id, data, options) =>
      data.length <= nats.messageBytesMax
        ? append(nats, id, data, options)
        : appendClaimed(nats, blobs, id, data, options),
    read: (id, range) => read(nats, blobs, id, range),
    last: async (id) => {
      try {
        const query = { last_by_subj: nats.subjects.journal(id) };
        const found = await nats.reader.byLeader(streamOf(nats, id), query);
        if (found === undefined) return undefined;
        return await toEvent(blobs, found).catch((error: unknown) => {
          if (error instanceof CorruptFrame) return found;
          throw error;
        });
      } catch (error) {
        throw portError(error);
      }
    },
    list: async function* (className) {
      const { subjects } = nats;
      for (const stream of subjects.streamsOf("journal"))
        yield* list(nats, stream, subjects.journals(className));
    },
  };
}

const streamOf = ({ subjects }: NatsShape, id: AgentId): string =>
  subjects.streamOf("journal", subjects.groupOf(id));

interface AppendOptions {
  readonly expectedSeq: Sequence;
  readonly signal: AbortSignal;
}

/** Nearly every append is stored by its first try: that one is no more than a publish. */
function append(
  nats: NatsShape,
  id: AgentId,
  data: Uint8Array,
  options: AppendOptions,
): Promise<AppendResult> {
  if (options.signal.aborted) return Promise.resolve({ _tag: "Unknown", message: "not tried" });
  return tryAppend(nats, id, data, options).then((outcome) =>
    outcome._tag === "Stored" ? outcome : appendAgain(nats, id, data, options, outcome),
  );
}

function tryAppend(
  nats: NatsShape,
  id: AgentId,
  data: Uint8Array,
  { expectedSeq, signal }: AppendOptions,
): Promise<PublishOutcome> {
  const publisher = nats.journalPublishers[nats.subjects.groupOf(id)]!;
  return publisher.publishAfter(expectedSeq, nats.subjects.journal(id), data, signal);
}

/** After `first`, which was not acked as stored, until what became of it is known, or `signal` fires. */
async function appendAgain(
  nats: NatsShape,
  id: AgentId,
  data: Uint8Array,
  options: AppendOptions,
  first: Exclude<PublishOutcome, { _tag: "Stored" }>,
): Promise<AppendResult> {
  const { expectedSeq, signal } = options;
  let last = first;
  for (let attempt = 0; ; attempt++) {
    const settled = await settle(nats, id, data, expectedSeq, last);
    if (settled !== undefined) return settled;
    await retryPause(nats.connection, attempt, signal);
    if (signal.aborted) return { _tag: "Unknown", message: last.message };
    const outcome = await tryAppend(nats, id, data, options);
    if (outcome._tag === "Stored") return outcome;
    last = outcome;
  }
}

/** What became of an append that was not acked as stored; undefined: not known, or not stored yet. */
async function settle(
  nats: NatsShape,
  id: AgentId,
  data: Uint8Array,
  expectedSeq: Sequence,
  outcome: Exclude<PublishOutcome, { _tag: "Stored" }>,
): Promise<AppendResult | undefined> {
  const wrongLast = outcome._tag === "Refused" && outcome.code === WRONG_LAST_SEQUENCE;
  // Not sent, or refused for another reason (no room, an append in flight): try again.
  if (outcome._tag !== "Ambiguous" && !wrongLast) return undefined;
  try {
    const query = { seq: expectedSeq + 1, next_by_subj: nats.subjects.journal(id) };
    const found = await nats.reader.byLeader(streamOf(nats, id), query);
    if (found !== undefined)
      return Buffer.compare(found.data, data) === 0
        ? { _tag: "Stored", seq: found.seq }
        : { _tag: "Conflict" };
    // Refused, and nothing came after: the event that was expected isn't there at all.
    return wrongLast ? { _tag: "Conflict" } : undefined;
  } catch {
    return undefined; // the broker is away: the append's next try waits for it
  }
}

async function appendClaimed(
  nats: NatsShape,
  blobs: BlobsShape,
  id: AgentId,
  data: Uint8Array,
  options: AppendOptions,
): Promise<AppendResult> {
  const { claim, frame } = newClaimCheck("journal", id, data);
  for (let attempt = 0; ; attempt++) {
    try {
      await blobs.put(claim.blob, data);
      break;
    } catch (error) {
      await retryPause(nats.connection, attempt, options.signal);
      if (options.signal.aborted) return { _tag: "Unknown", message: String(error) };
    }
  }
  const result = await append(nats, id, frame, options);
  // A blob that stays behind when this fails costs room and nothing else.
  if (result._tag === "Conflict") await blobs.remove(claim.blob).catch(() => undefined);
  return result;
}

async function* read(
  nats: NatsShape,
  blobs: BlobsShape,
  id: AgentId,
  range: { readonly fromSeq: Sequence; readonly toSeq?: Sequence },
): AsyncGenerator<StoredEvent, void, void> {
  const stream = streamOf(nats, id);
  try {
    for await (const batch of nats.reader.batches(stream, nats.subjects.journal(id), range))
      for (const found of batch)
        yield readClaimCheck(found.data) === undefined ? found : await toEvent(blobs, found);
  } catch (error) {
    throw portError(error);
  }
}

const toEvent = async (blobs: BlobsShape, found: StoredMessage): Promise<StoredEvent> => ({
  seq: found.seq,
  storedMs: found.storedMs,
  data: await resolveClaimCheck(blobs, found.data),
});

const portError = (error: unknown): unknown =>
  error instanceof CorruptFrame ? error : unavailable(error);

interface SubjectsPage {
  readonly total?: number;
  readonly limit?: number;
  readonly state: { readonly subjects?: Readonly<Record<string, number>> };
}

/** The server gives subjects sorted, 100,000 a page; each page is one answer. */
async function* list(
  nats: NatsShape,
  stream: string,
  subjects_filter: string,
): AsyncGenerator<JournalEntry, void, void> {
  const verb = `STREAM.INFO.${stream}`;
  let after = "";
  for (let offset = 0; ;) {
    let page: SubjectsPage;
    try {
      page = await nats.api.call<SubjectsPage>(verb, { subjects_filter, offset });
    } catch (error) {
      throw unavailable(error);
    }
    const found = Object.entries(page.state.subjects ?? {});
    for (const [subject, events] of found) {
      // An agent that came into being between two pages moves the rest by one: seen already.
      if (subject <= after) continue;
      after = subject;
      yield { id: nats.subjects.addressOf(subject), events };
    }
    offset += found.length;
    if (found.length === 0 || offset >= (page.total ?? 0)) return;
  }
}

export const layer: Layer.Layer<Journal, never, Nats | Blobs> = Layer.effect(
  Journal,
  Effect.gen(function* () {
    return makeNatsJournal(yield* Nats, yield* Blobs);
  }),
);
