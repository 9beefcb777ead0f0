/**
 * The feed of stored events, read from the stream by `StreamReader`, starting after the last
 * delivered event. A plain subscription to the journal's subjects only triggers a read. Its
 * messages are not delivered: they may still be refused, have no sequence, and are lost while the
 * connection is down.
 *
 * The feed has no JetStream consumer, so a killed follower leaves nothing in the broker.
 *
 * A follower of many agents reads all journal streams; its handler receives one event at a time
 * from all of them.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { Blobs, type BlobsShape } from "../../core/journal/Blobs.ts";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import {
  JournalFeed,
  type FeedFilter,
  type FeedHandler,
  type JournalFeedShape,
} from "../../core/journal/JournalFeed.ts";
import { agentId } from "../../schemas/Address.ts";
import { unavailable } from "./client/JetStreamApi.ts";
import { Nats, type NatsShape } from "./client/Nats.ts";
import { retryPause } from "./client/retryPause.ts";
import { subscribe } from "./client/subscribe.ts";
import { readAddress } from "./readAddress.ts";
import { untrimmed } from "./untrimmed.ts";

/** A published message is stored milliseconds later, or never. First retry; the pause doubles. */
const RETRY_MS = 10;
/** Between reads without a trigger, for events published while the connection was down. */
const POLL_MS = 1_000;

export function makeNatsJournalFeed(nats: NatsShape, blobs: BlobsShape): JournalFeedShape {
  return {
    follow: async (filter, handler, { signal, onFailed }) => {
      const all = new AbortController();
      const stop = (): void => all.abort();
      signal.addEventListener("abort", stop, { once: true });
      if (signal.aborted) stop();
      const ended = all.signal;
      const options = { subject: subjectOf(nats, filter), handler: oneByOne(handler, ended) };
      const feeds = streamsOf(nats, filter).map(
        (stream) => new Feed(nats, blobs, { ...options, stream, signal: ended }),
      );
      try {
        await Promise.all(feeds.map((feed) => feed.begin()));
      } catch (error) {
        stop();
        throw error;
      }
      for (const feed of feeds)
        feed.run().catch((error: unknown) => {
          if (ended.aborted) return;
          stop();
          onFailed(error);
        });
    },
  };
}

/** Serialises the calls of `handler`. No call begins once `signal` has fired. */
function oneByOne(handler: FeedHandler, signal: AbortSignal): FeedHandler {
  let last: Promise<void> = Promise.resolve();
  return (id, event) => {
    const mine = last.then(() => (signal.aborted ? undefined : handler(id, event)));
    last = mine.catch(() => undefined);
    return mine;
  };
}

interface FeedOptions {
  readonly stream: string;
  readonly subject: string;
  readonly handler: FeedHandler;
  readonly signal: AbortSignal;
}

class Feed {
  private readonly stream: string;
  private readonly subject: string;
  private readonly handler: FeedHandler;
  private readonly signal: AbortSignal;
  private nextSeq = 1;
  /** A message was published on the subject since the last read began. */
  private triggered = false;
  private wake: (() => void) | undefined;

  constructor(
    private readonly nats: NatsShape,
    private readonly blobs: BlobsShape,
    { stream, subject, handler, signal }: FeedOptions,
  ) {
    this.stream = stream;
    this.subject = subject;
    this.handler = handler;
    this.signal = signal;
  }

  /** Subscribes, and finds the end of the stream. Rejects with `BrokerUnavailable`. */
  async begin(): Promise<void> {
    const { nats, signal } = this;
    const subscription = subscribe(nats.connection.client, this.subject, () => {
      this.triggered = true;
      this.wake?.();
    });
    const stop = (): void => {
      subscription.unsubscribe();
      this.wake?.();
    };
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    try {
      const { state } = await nats.api.call<{ state: { last_seq: number } }>(
        `STREAM.INFO.${this.stream}`,
      );
      this.nextSeq = state.last_seq + 1;
    } catch (error) {
      stop();
      throw unavailable(error);
    }
  }

  /** Delivers events until the signal fires. Rejects with the handler's error or `CorruptFrame`. */
  async run(): Promise<void> {
    let waitMs = POLL_MS;
    for (let failures = 0; !this.signal.aborted;) {
      const { triggered } = this;
      this.triggered = false;
      try {
        const found = await this.deliverAll();
        failures = 0;
        if (found) waitMs = POLL_MS;
        else waitMs = triggered ? RETRY_MS : Math.min(waitMs * 2, POLL_MS);
      } catch (error) {
        if (!(error instanceof BrokerUnavailable)) throw error;
        await retryPause(this.nats.connection, failures++, this.signal);
        continue;
      }
      if (!this.triggered) await this.pause(waitMs);
    }
  }

  /** Delivers all stored events. Returns whether there were any. */
  private async deliverAll(): Promise<boolean> {
    const { nats } = this;
    const from = this.nextSeq;
    const stored = nats.reader.messages(this.stream, this.subject, { fromSeq: from });
    for await (const found of stored) {
      if (this.signal.aborted) break;
      const { seq, storedMs } = found;
      const id = readAddress(nats, found.subject);
      const data = await untrimmed(nats, this.blobs, this.stream, found);
      if (id !== undefined && data !== undefined) await this.handler(id, { seq, storedMs, data });
      this.nextSeq = seq + 1;
    }
    return this.nextSeq > from;
  }

  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const finish = (): void => {
        clearTimeout(timer);
        this.wake = undefined;
        resolve();
      };
      const timer = setTimeout(finish, ms);
      this.wake = finish;
      if (this.signal.aborted) finish();
    });
  }
}

/** The stream of the filter's agent, or all streams. */
const streamsOf = ({ subjects }: NatsShape, filter: FeedFilter): readonly string[] =>
  filter.className !== undefined && filter.name !== undefined
    ? [subjects.streamOf("journal", subjects.groupOf(agentId(filter.className, filter.name)))]
    : subjects.streamsOf("journal");

const subjectOf = ({ subjects }: NatsShape, filter: FeedFilter): string =>
  filter.className !== undefined && filter.name !== undefined
    ? subjects.journal(agentId(filter.className, filter.name))
    : subjects.journals(filter.className);

export const layer: Layer.Layer<JournalFeed, never, Nats | Blobs> = Layer.effect(
  JournalFeed,
  Effect.gen(function* () {
    return makeNatsJournalFeed(yield* Nats, yield* Blobs);
  }),
);
