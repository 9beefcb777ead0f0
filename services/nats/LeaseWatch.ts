/**
 * Watches one bucket of leases: reports every live lease, then each change, until the signal fires.
 *
 * 1. Each round is a new ordered push consumer that begins with the last message of every key, so
 *    no change between two rounds is missed. A known key that is absent from a round's list is
 *    reported as gone once the list is complete and no message waits behind it. A lease that is
 *    renewed while the list is sent is not in the list, but behind it. One that expires meanwhile
 *    may be in neither. At a heartbeat the consumer is idle: its list is complete, with nothing
 *    behind it.
 * 2. A round ends when a message is missing (the consumer numbers them, and its heartbeats name the
 *    last number), when heartbeats are missing, or when the connection breaks. The next one begins
 *    once the broker is back.
 * 3. A lease that was not renewed for two TTLs of the stream's own time is gone, even without an
 *    expiry marker. The replica that serves a watch may keep leases that the others have expired.
 *    The stream's time is that of the round's messages: a listed lease is as old as its message. In
 *    a bucket where nobody renews, time stands still until the next claim or renewal there.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Msg } from "@nats-io/nats-core";
import { NotPermitted } from "../../core/bus/Bus.ts";
import type { LeaseChange } from "../../core/lease/Leases.ts";
import { ClockSkew } from "./ClockSkew.ts";
import type { LeaseBucket } from "./layout/leaseBuckets.ts";
import { isLive, isOver, isReleased, leaseKey } from "./layout/leaseMessage.ts";
import type { NatsShape } from "./client/Nats.ts";
import { retryPause } from "./client/retryPause.ts";
import { subscribe } from "./client/subscribe.ts";
import { NANOS_PER_MS } from "./layout/streamConfigs.ts";

/** Short compared with a lease's usual TTL of five seconds; one message a second costs nothing. */
const HEARTBEAT_MS = 1_000;
/** Three heartbeats. A change is at most this late, well within a lease's usual TTL. */
const SILENCE_MAX_MS = 3_000;
/** In a heartbeat: the number of the last message that the consumer has sent. */
const LAST_SENT = "Nats-Last-Consumer";
/** Pause after a refusal of the login. Only a reload of the server's permissions changes it. */
const REFUSED_MS = 2_000;
/** The server removes a dead watcher's consumer after this time. */
const ABANDONED_MS = 60_000;

interface ConsumerInfo {
  readonly name: string;
  readonly num_pending: number;
  readonly delivered: { readonly consumer_seq: number };
}

interface Known {
  readonly value: string;
  readonly revision: number;
  /** By the server's clock. */
  readonly storedMs: number;
}

export class LeaseWatch {
  /** The live leases, by key, as last reported. */
  private readonly known = new Map<string, Known>();
  /** When the newest message was stored, and the time of the last check for stale leases. */
  private newestMs = 0;
  private lookedMs = 0;
  private hasSkipped = false;
  private readonly skew = new ClockSkew();

  constructor(
    private readonly nats: NatsShape,
    private readonly bucket: LeaseBucket,
    private readonly onChange: (change: LeaseChange) => void,
    private readonly signal: AbortSignal,
  ) {}

  /**
   * Resolves once every live lease was reported, or the signal fires. Continues until it fires.
   * Rejects if the login may not watch, and a later refusal is retried.
   */
  start(): Promise<void> {
    return new Promise((resolve, reject) => {
      void this.run(resolve).then(resolve, reject);
    });
  }

  /** Rejects only before `onListed` is called. */
  private async run(onListed: () => void): Promise<void> {
    let isListed = false;
    for (let attempt = 0; !this.signal.aborted; attempt++) {
      try {
        await this.round(() => {
          attempt = 0;
          isListed = true;
          onListed();
        });
      } catch (error) {
        if (this.signal.aborted) return;
        if (error instanceof NotPermitted && !isListed) throw error;
        this.nats.connection.log("warn", "the watch of leases was restarted", {
          error: String(error),
        });
        if (error instanceof NotPermitted)
          await delay(REFUSED_MS, undefined, { signal: this.signal }).catch(() => undefined);
      }
      if (!this.signal.aborted) await retryPause(this.nats.connection, attempt, this.signal);
    }
  }

  private async round(onListed: () => void): Promise<void> {
    const { connection, api } = this.nats;
    const inbox = connection.newInbox();
    const round = new Round(this.signal, this.nats);
    // Removed between two rounds: after its last known change, and before any later claim.
    const onGone = (key: string): void =>
      this.report(key, undefined, this.known.get(key)?.revision ?? 0);
    const list = new RoundList(new Set(this.known.keys()), onListed, onGone);
    // Rule 3.
    this.newestMs = this.lookedMs = 0;
    let expected = 1;
    const receive = (message: Msg): void => {
      round.heard();
      const isHeartbeat = message.subject === inbox;
      const numbers = message.reply?.split(".") ?? [];
      const isMissing = isHeartbeat
        ? Number(message.headers?.get(LAST_SENT)) >= expected
        : Number(numbers.at(-3)) !== expected;
      if (isMissing) return round.end("a change was lost on the way"); // rule 2
      if (isHeartbeat) return list.idle();
      expected++;
      this.receive(message, numbers, list);
    };
    const subscription = subscribe(connection.client, inbox, (error, message) => {
      if (error === null) receive(message);
      else round.end(String(error));
    });
    try {
      const info = await this.createConsumer(inbox);
      // Some messages may precede this reply; `expected` counts them.
      list.expect(info.num_pending + info.delivered.consumer_seq - (expected - 1));
      await round.ended;
      if (this.signal.aborted && connection.connected())
        // Only spares the server a minute of an abandoned consumer.
        await api.call(`CONSUMER.DELETE.${this.bucket.stream}.${info.name}`).catch(() => undefined);
    } finally {
      round.end("over");
      subscription.unsubscribe();
    }
  }

  /** `numbers`: the tokens of the message's reply subject. */
  private receive(message: Msg, numbers: ReadonlyArray<string>, list: RoundList): void {
    const header = (name: string): string | undefined => message.headers?.get(name) || undefined;
    const key = leaseKey(message.subject, this.bucket.prefix);
    const storedMs = Number(numbers.at(-2)) / NANOS_PER_MS;
    this.newestMs = Math.max(this.newestMs, storedMs);
    // What the list has was stored earlier.
    if (list.isComplete) this.compareClocks(storedMs);
    if (key === undefined) this.skipped(message.subject);
    else {
      const value = isLive({ header }) ? message.string() : undefined;
      this.report(key, value, Number(numbers.at(-4)), isReleased({ header }));
    }
    list.arrived(key, Number(numbers.at(-1)));
    if (list.isComplete) this.endStale();
  }

  private createConsumer(inbox: string): Promise<ConsumerInfo> {
    const { stream, filter } = this.bucket;
    return this.nats.api.call(`CONSUMER.CREATE.${stream}`, {
      stream_name: stream,
      config: {
        deliver_subject: inbox,
        deliver_policy: "last_per_subject",
        filter_subject: filter,
        ack_policy: "none",
        max_deliver: 1,
        mem_storage: true,
        num_replicas: 1,
        idle_heartbeat: HEARTBEAT_MS * NANOS_PER_MS,
        inactive_threshold: ABANDONED_MS * NANOS_PER_MS,
      },
    });
  }

  /** One line for the watch: whoever publishes such a message may publish more of them. */
  private skipped(subject: string): void {
    if (this.hasSkipped) return;
    this.hasSkipped = true;
    this.nats.connection.log("warn", "a lease without a readable key is ignored", { subject });
  }

  private compareClocks(storedMs: number): void {
    const skewMs = this.skew.saw(storedMs, Date.now(), performance.now());
    if (skewMs !== undefined)
      this.nats.connection.log("warn", "this machine's clock differs from the broker's", {
        seconds: Math.round(skewMs / 1_000),
      });
  }

  /** Rule 3. Runs once per heartbeat of the stream's time, because every renewal arrives here. */
  private endStale(): void {
    if (this.newestMs - this.lookedMs < HEARTBEAT_MS) return;
    this.lookedMs = this.newestMs;
    for (const [key, { revision, storedMs }] of this.known) {
      if (!isOver(storedMs, this.newestMs, this.nats.leaseTtlMs)) continue;
      this.nats.connection.log("warn", "a lease has expired without a notice from the broker", {
        key,
      });
      this.report(key, undefined, revision);
    }
  }

  private report(key: string, value: string | undefined, revision: number, released = false): void {
    const before = this.known.get(key)?.value;
    if (value === undefined) this.known.delete(key);
    else this.known.set(key, { value, revision, storedMs: this.newestMs });
    // An equal value is a renewal, or a tombstone of a lease that was gone already.
    if (before !== value)
      this.onChange({ key, revision, value, ...(released ? { released } : {}) });
  }
}

/** One round. Ends once: by silence, a lost connection, the signal, or `end`. */
class Round {
  readonly ended: Promise<void>;
  readonly end: (why: string) => void;
  private heardMs = performance.now();

  constructor(signal: AbortSignal, nats: NatsShape) {
    let resolve: () => void = () => undefined;
    this.ended = new Promise((r) => {
      resolve = r;
    });
    const onAbort = (): void => this.end("stopped");
    const offChange = nats.connection.onChange((up) => {
      if (!up) this.end("disconnected");
    });
    const watchdog = setInterval(() => {
      if (performance.now() - this.heardMs > SILENCE_MAX_MS) this.end("the broker is silent");
    }, HEARTBEAT_MS);
    this.end = () => {
      clearInterval(watchdog);
      offChange();
      signal.removeEventListener("abort", onAbort);
      resolve();
    };
    signal.addEventListener("abort", onAbort);
    if (signal.aborted) this.end("stopped");
  }

  heard(): void {
    this.heardMs = performance.now();
  }
}

/** The list of one round: when it is complete, and which known leases are not in it (rule 1). */
class RoundList {
  /** Messages of the list that have not arrived. Infinite until the consumer's answer. */
  private left = Infinity;
  /** Messages behind the last one that arrived. */
  private behind = 0;

  /** `unlisted`: the known keys that have not arrived. `onGone` is called for each that won't. */
  constructor(
    private readonly unlisted: Set<string>,
    private readonly onListed: () => void,
    private readonly onGone: (key: string) => void,
  ) {}

  get isComplete(): boolean {
    return this.left <= 0;
  }

  /** The consumer's answer: the list has so many more messages. */
  expect(left: number): void {
    this.left = left;
    if (left <= 0) this.complete();
  }

  /** Called when a message is reported. `behind`: how many wait behind it. */
  arrived(key: string | undefined, behind: number): void {
    this.behind = behind;
    if (key !== undefined) this.unlisted.delete(key);
    if (this.isComplete) this.endUnlisted();
    else if (--this.left === 0) this.complete();
  }

  /** At a heartbeat the consumer is idle. */
  idle(): void {
    // Before the consumer's answer, nothing is known of the list.
    if (this.left === Infinity) return;
    this.behind = 0;
    if (this.isComplete) this.endUnlisted();
    else this.complete();
  }

  private complete(): void {
    this.left = 0;
    this.endUnlisted();
    this.onListed();
  }

  private endUnlisted(): void {
    if (this.behind > 0) return;
    for (const key of this.unlisted) this.onGone(key);
    this.unlisted.clear();
  }
}
