/**
 * Leases in key-value buckets (`leaseBuckets`) whose age limit is their TTL. The port's rules are
 * upheld as follows:
 *
 * 1. Claiming, renewing and releasing each publish with the expected sequence of the key's last
 *    message. The stream refuses all but one. The current message is read from the leader.
 * 2. The epoch is the sequence of the claim's message in the stream. It only grows, whatever
 *    expires or is purged in between. Renewals carry it in a header.
 * 3. The age limit removes a lease that is not renewed and leaves a marker, which watchers receive.
 * 4. A claim may replace nothing, a marker, or a release. None of them leads to a later marker that
 *    could wipe the claim (`RELEASED`). A lease that is due to expire counts as held until its
 *    marker is stored. A renewal later than the TTL can still be wiped after its ack; the watch and
 *    the next renewal detect that.
 *
 * 5. The sequences of renewals are kept here, by key: only the process that claimed a lease can
 *    renew it. A renewal that learns late that its lease is lost may find a later claim of the key
 *    here, by `supersede` or after a release, and leaves it alone.
 *
 * Each write carries a unique mark, by which a write whose ack was lost is recognised when it is
 * read back.
 */
import { randomUUID } from "node:crypto";
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { BrokerUnavailable, NotPermitted } from "../../core/bus/Bus.ts";
import { Leases, type ClaimResult, type Lease, type LeasesShape } from "../../core/lease/Leases.ts";
import { encodeToken, type Epoch, type Sequence } from "../../schemas/Address.ts";
import {
  expectLast,
  WRONG_LAST_SEQUENCE,
  WRONG_LAST_SEQUENCE_IN_FLIGHT,
  type PublishOutcome,
} from "./client/AckPublisher.ts";
import { orUnavailable } from "./client/JetStreamApi.ts";
import { LeaseBuckets, type LeaseBucket } from "./layout/leaseBuckets.ts";
import { LeaseWatch } from "./LeaseWatch.ts";
import { isLive, isOver, leaseKey, leaseOf, LeaseHeader, RELEASED } from "./layout/leaseMessage.ts";
import { Nats, type NatsShape } from "./client/Nats.ts";
import { headers } from "./client/ReplyInbox.ts";
import { StallDetector } from "./client/StallDetector.ts";
import type { StoredMessage } from "./client/StreamReading.ts";

/** Bounds a write that is refused because of earlier, ambiguous writes of its own. */
const WRITES_MAX = 5;
const encoder = new TextEncoder();
const EMPTY = new Uint8Array(0);

export function makeNatsLeases(nats: NatsShape): LeasesShape {
  const keys = new LeaseKeys(nats);
  const own = new OwnLeases(keys);
  return {
    ttlMs: nats.leaseTtlMs,
    claim: (key, value) => orUnavailable(() => own.claim(key, value)),
    renew: (lease, value) =>
      orUnavailable(async () => {
        const bytes = encoder.encode(value ?? lease.value);
        const { _tag } = await own.rewrite(lease, bytes, epochOf(lease));
        return { _tag };
      }),
    supersede: (lease, value) => orUnavailable(() => own.supersede(lease, value)),
    release: (lease) => own.release(lease),
    watch: async (onChange, signal) => {
      await Promise.all(
        keys.buckets.all.map((bucket) => new LeaseWatch(nats, bucket, onChange, signal).start()),
      );
    },
    list: (keyPrefix) =>
      orUnavailable(async () => {
        const read = keys.buckets.withKeys(keyPrefix).map((bucket) => keys.list(bucket, keyPrefix));
        return (await Promise.all(read)).flat();
      }),
  };
}

/** The leases that this process has claimed, by the last sequence of each. */
class OwnLeases {
  private readonly held = new Map<string, { readonly epoch: Epoch; revision: Sequence }>();

  constructor(private readonly keys: LeaseKeys) {}

  async claim(key: string, value: string): Promise<ClaimResult> {
    const before = await this.keys.current(key);
    if (before !== undefined && isLive(before)) return { _tag: "Held" };
    const after = before?.seq ?? (0 as Sequence);
    const { outcome, mark } = await this.keys.write(key, encoder.encode(value), after);
    if (outcome._tag === "NotSent") throw new BrokerUnavailable({ message: outcome.message });
    if (outcome._tag === "Stored") return this.claimed(key, value, outcome.seq);
    const found = await this.keys.current(key);
    if (found?.header(LeaseHeader.mark) === mark) return this.claimed(key, value, found.seq);
    if (isOvertaken(outcome)) return { _tag: "Held" };
    // Refused for lack of room, or ambiguous and not stored yet. If it is stored after all, the
    // next claim finds it.
    throw notWritten(key, outcome);
  }

  async supersede(lease: Lease, value: string): Promise<ClaimResult> {
    // Without an epoch in a header it is a claim (rule 2).
    const written = await this.rewrite(lease, encoder.encode(value));
    return written._tag === "Lost" ? { _tag: "Held" } : this.claimed(lease.key, value, written.seq);
  }

  /** Best effort: a lease that cannot be released now expires. */
  async release(lease: Lease): Promise<void> {
    const released = [LeaseHeader.operation, RELEASED] as const;
    await this.rewrite(lease, EMPTY, epochOf(lease), released).catch(() => undefined);
    if (this.held.get(lease.key)?.epoch === lease.epoch) this.held.delete(lease.key);
  }

  /** Replaces the own lease's message. `Lost`: this process no longer holds the lease. */
  async rewrite(lease: Lease, value: Uint8Array, ...lines: HeaderLines): Promise<Rewritten> {
    const { key } = lease;
    const mine = this.held.get(key);
    if (mine === undefined || mine.epoch !== lease.epoch) return { _tag: "Lost" };
    for (let attempt = 1; ; attempt++) {
      const { outcome, mark } = await this.keys.write(key, value, mine.revision, ...lines);
      if (outcome._tag === "Stored") {
        mine.revision = outcome.seq;
        return { _tag: "Renewed", seq: outcome.seq };
      }
      if (outcome._tag === "NotSent") throw new BrokerUnavailable({ message: outcome.message });
      // An earlier, ambiguous renewal may have been stored, or this write without its ack.
      const found = await this.keys.current(key);
      if (found !== undefined && found.header(LeaseHeader.mark) === mark) {
        mine.revision = found.seq;
        return { _tag: "Renewed", seq: found.seq };
      }
      if (found === undefined || !isLive(found) || leaseOf(found, key).epoch !== lease.epoch) {
        // Rule 5.
        if (this.held.get(key) === mine) this.held.delete(key);
        return { _tag: "Lost" };
      }
      mine.revision = found.seq;
      if (attempt === WRITES_MAX) throw notWritten(key, outcome);
    }
  }

  /** Rule 2: the sequence of the claim's message is its epoch. */
  private claimed(key: string, value: string, seq: Sequence): ClaimResult {
    const epoch = seq as number as Epoch;
    this.held.set(key, { epoch, revision: seq });
    return { _tag: "Claimed", lease: { key, value, epoch } };
  }
}

/** Reads and writes the messages of keys. */
class LeaseKeys {
  readonly buckets: LeaseBuckets;
  private readonly stranded: StallDetector;

  constructor(private readonly nats: NatsShape) {
    this.buckets = new LeaseBuckets(nats.subjects);
    this.stranded = new StallDetector(nats.connection);
  }

  /** The key's last message, from the leader. */
  async current(key: string): Promise<StoredMessage | undefined> {
    try {
      const query = { last_by_subj: this.subjectOf(key) };
      const found = await this.nats.reader.byLeader(this.buckets.of(key).stream, query);
      this.stranded.heard(true);
      return found;
    } catch (error) {
      this.stranded.heard(false);
      throw error;
    }
  }

  /** Publishes if `after` is the sequence of the key's last message (rule 1). */
  async write(
    key: string,
    value: Uint8Array,
    after: Sequence,
    ...lines: HeaderLines
  ): Promise<{ readonly outcome: PublishOutcome; readonly mark: string }> {
    const mark = randomUUID();
    const block = headers(expectLast(after), [LeaseHeader.mark, mark], ...lines);
    const outcome = await this.nats.publisher.publish(this.subjectOf(key), value, {
      headers: block,
    });
    this.stranded.heard(["Stored", "Denied"].includes(outcome._tag) || isOvertaken(outcome));
    if (outcome._tag === "Denied") throw new NotPermitted({ message: outcome.message });
    return { mark, outcome };
  }

  /** Live leases of one bucket whose key starts with `keyPrefix`. */
  async list({ stream, prefix, filter }: LeaseBucket, keyPrefix: string): Promise<Lease[]> {
    // A lease that is renewed while the bucket is read comes a second time.
    const last = new Map<string, StoredMessage>(); // by key
    let newestMs = 0;
    for await (const found of this.nats.reader.messages(stream, filter, { fromSeq: 1 })) {
      newestMs = Math.max(newestMs, found.storedMs);
      const key = leaseKey(found.subject, prefix);
      if (key?.startsWith(keyPrefix) === true) last.set(key, found);
    }
    return [...last]
      .filter(([, found]) => isLive(found))
      .filter(([, { storedMs }]) => !isOver(storedMs, newestMs, this.nats.leaseTtlMs))
      .map(([key, found]) => leaseOf(found, key));
  }

  private subjectOf(key: string): string {
    return this.buckets.of(key).prefix + key.split(".").map(encodeToken).join(".");
  }
}

type HeaderLines = ReadonlyArray<readonly [string, string]>;

/** A renewal names its claim. */
const epochOf = ({ epoch }: Lease): readonly [string, string] => [LeaseHeader.epoch, String(epoch)];

/** `seq`: of the message that now is the key's last. */
type Rewritten = { readonly _tag: "Renewed"; readonly seq: Sequence } | { readonly _tag: "Lost" };

/** With the broker's reason, such as a full disk. */
const notWritten = (key: string, { message }: { readonly message: string }): BrokerUnavailable =>
  new BrokerUnavailable({ message: `${key} could not be written: ${message}` });

/** Refused by a working leader because another write came first, not for lack of a leader. */
const isOvertaken = (outcome: PublishOutcome): boolean =>
  outcome._tag === "Refused" &&
  [WRONG_LAST_SEQUENCE, WRONG_LAST_SEQUENCE_IN_FLIGHT].includes(outcome.code);

export const layer: Layer.Layer<Leases, never, Nats> = Layer.effect(
  Leases,
  Effect.map(Nats, makeNatsLeases),
);
