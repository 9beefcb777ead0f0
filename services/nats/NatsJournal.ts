/**
 * The journal in a JetStream stream, one subject per agent. The port's rules are upheld as follows:
 *
 * 1. Each append carries `Nats-Expected-Last-Subject-Sequence`. The stream refuses all but the
 *    first.
 * 2. One event is one message. The bytes of an event past the payload limit are stored as a blob
 *    first, and a claim check takes its place. A refused append removes the blob.
 * 3. `read` uses `StreamReader.batches`: messages from any replica, the end from the leader. An
 *    event that is trimmed between its message and its blob is left out; the next one names it.
 * 4. After an ambiguous or refused append, the first event after `expectedSeq` is read and its
 *    bytes are compared; each event contains a unique id. That event never changes, so a match
 *    (`Stored`) and a mismatch (`Conflict`) are final. Where events between the two were trimmed
 *    nobody can tell any more: `Unknown`. If there is none yet, the append is repeated
 *    with the same expectation, which the stream refuses if the first one is stored meanwhile. An
 *    event is therefore never stored twice, and `Conflict` means that it was not stored. The last
 *    event would not do: a new owner may have appended after it.
 *
 * This lookup and `last` ask the leader. A replica that lags would report a stored event as absent,
 * which would cost an activation (a stale `last`) or a needless retry.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { NotPermitted } from "../../core/bus/Bus.ts";
import { Blobs, type BlobsShape } from "../../core/journal/Blobs.ts";
import {
  Journal,
  pastTheEnd,
  type AppendResult,
  type JournalEntry,
  type JournalShape,
  type StoredEvent,
} from "../../core/journal/Journal.ts";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import {
  errorOf,
  WRONG_LAST_SEQUENCE,
  type NotStored,
  type PublishOutcome,
} from "./client/AckPublisher.ts";
import {
  findClaimCheck,
  newClaimCheck,
  readClaimCheck,
  resolveClaimCheck,
} from "./layout/claimCheck.ts";
import { unavailable } from "./client/JetStreamApi.ts";
import { Nats, type NatsShape } from "./client/Nats.ts";
import { messageOf } from "../../core/errors/thrown.ts";
import { retryPause } from "./client/retryPause.ts";
import type { WaitingWrite } from "./client/WaitingWrites.ts";
import type { StoredMessage } from "./client/StreamReading.ts";
import { readAddress } from "./readAddress.ts";
import { untrimmed } from "./untrimmed.ts";

export function makeNatsJournal(nats: NatsShape, blobs: BlobsShape): JournalShape {
  return {
    append: (id, data, options) =>
      data.length <= nats.messageBytesMax
        ? append(nats, blobs, id, data, options)
        : whileWaiting(nats, id, (event) =>
            appendLarge(nats, blobs, id, data, { ...options, event }),
          ),
    read: (id, range) => read(nats, blobs, id, range),
    last: async (id) => {
      try {
        const query = { last_by_subj: nats.subjects.journal(id) };
        const found = await nats.reader.byLeader(streamOf(nats, id), query);
        return found && (await toEventIfWhole(blobs, found));
      } catch (error) {
        throw portError(error);
      }
    },
    lastOfEach: async (ids) => {
      try {
        const reads = nats.subjects.streamsOf("journal").map((stream) => {
          const here = ids.filter((id) => streamOf(nats, id) === stream);
          return nats.reader.lastOfEach(
            stream,
            here.map((id) => nats.subjects.journal(id)),
          );
        });
        const found = new Map((await Promise.all(reads)).flatMap((each) => [...each]));
        const lasts = ids.map((id) => found.get(nats.subjects.journal(id)));
        return await Promise.all(lasts.map((last) => last && toEventIfWhole(blobs, last)));
      } catch (error) {
        throw portError(error);
      }
    },
    first: async (id) => {
      try {
        // Asks the leader: a replica that lags may have an event whose blob was removed.
        const query = { seq: 1, next_by_subj: nats.subjects.journal(id) };
        const found = await nats.reader.byLeader(streamOf(nats, id), query);
        return found && (await toEvent(blobs, found));
      } catch (error) {
        throw portError(error);
      }
    },
    trim: (id, keepFromSeq) => trim(nats, blobs, id, keepFromSeq),
    list: async function* (className, name) {
      const { subjects } = nats;
      for (const stream of subjects.streamsOf("journal"))
        yield* list(nats, stream, subjects.journals(className, name));
    },
  };
}

const streamOf = ({ subjects }: NatsShape, id: AgentId): string =>
  subjects.streamOf("journal", subjects.groupOf(id));

const eventOf = (nats: NatsShape, id: AgentId): string =>
  `stored an event of ${streamOf(nats, id)}`;

interface AppendOptions {
  readonly expectedSeq: Sequence;
  readonly signal: AbortSignal;
}

/** Nearly every append is stored by the first attempt, which is a plain publish. */
function append(
  nats: NatsShape,
  blobs: BlobsShape,
  id: AgentId,
  data: Uint8Array,
  options: AppendOptions,
): Promise<AppendResult> {
  if (options.signal.aborted) return Promise.resolve({ _tag: "Unknown", message: "not tried" });
  return tryAppend(nats, id, data, options).then((outcome) => {
    if (outcome._tag !== "Stored")
      return whileWaiting(nats, id, (event) =>
        appendAgain(nats, blobs, id, data, { ...options, first: outcome, event }),
      );
    if (nats.waitingWrites.hasRefused) nats.waitingWrites.stored(eventOf(nats, id));
    return outcome;
  });
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

/** While `store` runs, the event is one of `waitingWrites`. */
async function whileWaiting<A>(
  nats: NatsShape,
  id: AgentId,
  store: (event: WaitingWrite) => Promise<A>,
): Promise<A> {
  const { waitingWrites } = nats;
  const event = waitingWrites.begin(eventOf(nats, id));
  try {
    return await store(event);
  } finally {
    waitingWrites.end(event);
  }
}

/** Continues after `first`, which was not acked as stored, until it is known or `signal` fires. */
async function appendAgain(
  nats: NatsShape,
  blobs: BlobsShape,
  id: AgentId,
  data: Uint8Array,
  { first, event, ...options }: AppendOptions & { readonly first: NotStored; readonly event: WaitingWrite }, // prettier-ignore
): Promise<AppendResult> {
  const { expectedSeq, signal } = options;
  let last = first;
  for (let attempt = 0; ; attempt++) {
    event.reason = errorOf(last);
    if (last._tag === "TooLarge") return appendLarge(nats, blobs, id, data, { ...options, event });
    if (last._tag === "Denied") {
      nats.waitingWrites.refuse(event.what, event.reason);
      return { _tag: "Unknown", message: last.message };
    }
    const settled = await settle(nats, id, data, expectedSeq, last);
    if (settled !== undefined) return settled;
    // One refusal may be the end of an election; a lost connection has a line of its own.
    if (attempt > 0 && nats.connection.connected())
      nats.connection.log("warn", "an event could not be stored; its turn waits", {
        stream: streamOf(nats, id),
        why: last.message,
      });
    await retryPause(nats.connection, attempt, signal);
    if (signal.aborted) return { _tag: "Unknown", message: last.message };
    const outcome = await tryAppend(nats, id, data, options);
    if (outcome._tag === "Stored") return outcome;
    last = outcome;
  }
}

/**
 * Determines the outcome of an append that was not acked as stored (rule 4). Returns undefined when
 * it is unknown, or the event is not stored yet.
 */
async function settle(
  nats: NatsShape,
  id: AgentId,
  data: Uint8Array,
  expectedSeq: Sequence,
  outcome: NotStored,
): Promise<AppendResult | undefined> {
  const wrongLast = outcome._tag === "Refused" && outcome.code === WRONG_LAST_SEQUENCE;
  // Not sent, or refused for another reason (no space, another append in flight): the caller
  // retries.
  if (outcome._tag !== "Ambiguous" && !wrongLast) return undefined;
  try {
    const query = { seq: expectedSeq + 1, next_by_subj: nats.subjects.journal(id) };
    const found = await nats.reader.byLeader(streamOf(nats, id), query);
    if (found !== undefined && Buffer.compare(found.data, data) === 0)
      return { _tag: "Stored", seq: found.seq };
    if (found !== undefined)
      return follows(found.data, expectedSeq)
        ? { _tag: "Conflict" }
        : { _tag: "Unknown", message: "the event and later ones were trimmed in the meantime" };
    // Refused, and no event follows: the expected event does not exist.
    return wrongLast ? { _tag: "Conflict" } : undefined;
  } catch {
    return undefined; // the broker is unreachable; the next attempt waits for it
  }
}

/**
 * False when an event that came before it was trimmed. It may have been the one that was looked
 * for: its writer was away for longer than the journal keeps events.
 */
function follows(data: Uint8Array, expectedSeq: Sequence): boolean {
  try {
    const { after } = decodeEvent(data).head;
    return after === undefined || after <= expectedSeq;
  } catch {
    // A claim check, whose head is elsewhere, or a damaged event: what trimming keeps first is
    // neither (`core/retention/trimAgent`).
    return true;
  }
}

/**
 * Removes the blobs of the events after the events: a reader that meets an event finds its blob. A
 * blob that remains when the process ends in between only takes up space.
 */
async function trim(
  nats: NatsShape,
  blobs: BlobsShape,
  id: AgentId,
  keepFromSeq: Sequence,
): Promise<number> {
  const stream = streamOf(nats, id);
  const filter = nats.subjects.journal(id);
  try {
    const last = await nats.reader.byLeader(stream, { last_by_subj: filter });
    if (keepFromSeq > (last?.seq ?? 0)) throw pastTheEnd(id, keepFromSeq);
    const large: string[] = [];
    const range = { fromSeq: 1, toSeq: keepFromSeq - 1 };
    for await (const { data } of nats.reader.messages(stream, filter, range)) {
      const check = findClaimCheck(data);
      if (check !== undefined) large.push(check.blob);
    }
    const { purged } = await nats.api.call<{ purged: number }>(`STREAM.PURGE.${stream}`, {
      filter,
      seq: keepFromSeq,
    });
    for (const blob of large) await blobs.remove(blob);
    return purged;
  } catch (error) {
    throw error instanceof RangeError ? error : portError(error);
  }
}

async function appendLarge(
  nats: NatsShape,
  blobs: BlobsShape,
  id: AgentId,
  data: Uint8Array,
  { event, ...options }: AppendOptions & { readonly event: WaitingWrite },
): Promise<AppendResult> {
  event.reason = "its blob is being stored";
  const { check, frame } = newClaimCheck("journal", id, data);
  for (let attempt = 0; ; attempt++) {
    try {
      await blobs.put(check.blob, data);
      break;
    } catch (error) {
      event.reason = error;
      const isFinal = error instanceof NotPermitted;
      if (!isFinal) await retryPause(nats.connection, attempt, options.signal);
      if (isFinal || options.signal.aborted) return { _tag: "Unknown", message: messageOf(error) };
    }
  }
  const result = await append(nats, blobs, id, frame, options);
  // A blob that remains when this fails only takes up space.
  if (result._tag === "Conflict") await blobs.remove(check.blob).catch(() => undefined);
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
        if (readClaimCheck(found.data) === undefined) yield found;
        else {
          const data = await untrimmed(nats, blobs, stream, found);
          if (data !== undefined) yield { seq: found.seq, storedMs: found.storedMs, data };
        }
  } catch (error) {
    throw portError(error);
  }
}

const toEvent = async (blobs: BlobsShape, found: StoredMessage): Promise<StoredEvent> => ({
  seq: found.seq,
  storedMs: found.storedMs,
  data: await resolveClaimCheck(blobs, found.data),
});

/** An event whose bytes are lost stays as it was found. */
const toEventIfWhole = (blobs: BlobsShape, found: StoredMessage): Promise<StoredEvent> =>
  toEvent(blobs, found).catch((error: unknown) => {
    if (error instanceof CorruptFrame) return found;
    throw error;
  });

const portError = (error: unknown): unknown =>
  error instanceof CorruptFrame ? error : unavailable(error);

interface SubjectsPage {
  readonly total?: number;
  readonly limit?: number;
  readonly state: { readonly subjects?: Readonly<Record<string, number>> };
}

/** The server returns subjects sorted, 100,000 per page; each page is one reply. */
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
      // An agent that was created between two pages shifts the rest by one: listed already.
      if (subject <= after) continue;
      after = subject;
      const id = readAddress(nats, subject);
      if (id !== undefined) yield { id, events };
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
