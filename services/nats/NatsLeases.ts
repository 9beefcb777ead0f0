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
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { Leases, type Lease, type LeasesShape } from "../../core/lease/Leases.ts";
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
import { headers, NotPermitted } from "./client/ReplyInbox.ts";
import { StallDetector } from "./client/StallDetector.ts";
import type { StoredMessage } from "./client/StreamReading.ts";

/** Bounds a write that is refused because of earlier, ambiguous writes of its own. */
const WRITES_MAX = 5;
const encoder = new TextEncoder();
const EMPTY = new Uint8Array(0);

export function makeNatsLeases(nats: NatsShape): LeasesShape {
  const buckets = new LeaseBuckets(nats.subjects);
  /** The last sequence of each lease that this process has claimed. */
  const held = new Map<string, { readonly epoch: Epoch; revision: Sequence }>();
  const subjectOf = (key: string): string =>
    buckets.of(key).prefix + key.split(".").map(encodeToken).join(".");
  const stranded = new StallDetector(nats.connection);
  const current = async (key: string): Promise<StoredMessage | undefined> => {
    try {
      const query = { last_by_subj: subjectOf(key) };
      const found = await nats.reader.byLeader(buckets.of(key).stream, query);
      stranded.heard(true);
      return found;
    } catch (error) {
      stranded.heard(false);
      throw error;
    }
  };

  const write = async (
    key: string,
    value: Uint8Array,
    after: Sequence,
    ...lines: ReadonlyArray<readonly [string, string]>
  ): Promise<{ readonly outcome: PublishOutcome; readonly mark: string }> => {
    const mark = randomUUID();
    const block = headers(expectLast(after), [LeaseHeader.mark, mark], ...lines);
    const outcome = await nats.publisher.publish(subjectOf(key), value, { headers: block });
    stranded.heard(["Stored", "Denied"].includes(outcome._tag) || isOvertaken(outcome));
    if (outcome._tag === "Denied") throw new NotPermitted({ message: outcome.message });
    return { mark, outcome };
  };

  const claim: LeasesShape["claim"] = (key, value) =>
    orUnavailable(async () => {
      const before = await current(key);
      if (before !== undefined && isLive(before)) return { _tag: "Held" };
      const after = before?.seq ?? (0 as Sequence);
      const { outcome, mark } = await write(key, encoder.encode(value), after);
      if (outcome._tag === "NotSent") throw new BrokerUnavailable({ message: outcome.message });
      let seq: number;
      if (outcome._tag === "Stored") ({ seq } = outcome);
      else {
        const found = await current(key);
        if (found?.header(LeaseHeader.mark) === mark) ({ seq } = found);
        else if (isOvertaken(outcome)) return { _tag: "Held" };
        // Refused for lack of room, or ambiguous and not stored yet. If it is stored after all, the
        // next claim finds it.
        else throw notWritten(key, outcome);
      }
      const epoch = seq as Epoch;
      held.set(key, { epoch, revision: seq as Sequence });
      return { _tag: "Claimed", lease: { key, value, epoch } };
    });

  /** Replaces the own lease's message. `Lost`: this process no longer holds the lease. */
  const rewrite = async (
    lease: Lease,
    value: Uint8Array,
    ...lines: ReadonlyArray<readonly [string, string]>
  ): Promise<Rewritten> => {
    const mine = held.get(lease.key);
    if (mine === undefined || mine.epoch !== lease.epoch) return { _tag: "Lost" };
    for (let attempt = 1; ; attempt++) {
      const { outcome, mark } = await write(lease.key, value, mine.revision, ...lines);
      if (outcome._tag === "Stored") {
        mine.revision = outcome.seq;
        return { _tag: "Renewed", seq: outcome.seq };
      }
      if (outcome._tag === "NotSent") throw new BrokerUnavailable({ message: outcome.message });
      // An earlier, ambiguous renewal may have been stored, or this write without its ack.
      const found = await current(lease.key);
      if (found !== undefined && found.header(LeaseHeader.mark) === mark) {
        mine.revision = found.seq;
        return { _tag: "Renewed", seq: found.seq };
      }
      if (
        found === undefined ||
        !isLive(found) ||
        leaseOf(found, lease.key).epoch !== lease.epoch
      ) {
        // Rule 5.
        if (held.get(lease.key) === mine) held.delete(lease.key);
        return { _tag: "Lost" };
      }
      mine.revision = found.seq;
      if (attempt === WRITES_MAX) throw notWritten(lease.key, outcome);
    }
  };

  /** Live leases of one bucket whose key starts with `keyPrefix`. */
  const listOf = async (
    { stream, prefix, filter }: LeaseBucket,
    keyPrefix: string,
  ): Promise<Lease[]> => {
    // A lease that is renewed while the bucket is read comes a second time.
    const last = new Map<string, StoredMessage>(); // by key
    let newestMs = 0;
    for await (const found of nats.reader.messages(stream, filter, { fromSeq: 1 })) {
      newestMs = Math.max(newestMs, found.storedMs);
      const key = leaseKey(found.subject, prefix);
      if (key?.startsWith(keyPrefix) === true) last.set(key, found);
    }
    return [...last]
      .filter(([, found]) => isLive(found))
      .filter(([, { storedMs }]) => !isOver(storedMs, newestMs, nats.leaseTtlMs))
      .map(([key, found]) => leaseOf(found, key));
  };

  return {
    ttlMs: nats.leaseTtlMs,
    claim,
    renew: (lease, value) =>
      orUnavailable(async () => {
        const { _tag } = await rewrite(lease, encoder.encode(value ?? lease.value), epochOf(lease));
        return { _tag };
      }),
    supersede: (lease, value) =>
      orUnavailable(async () => {
        // Without an epoch in a header it is a claim (rule 2).
        const written = await rewrite(lease, encoder.encode(value));
        if (written._tag === "Lost") return { _tag: "Held" };
        const epoch = written.seq as number as Epoch;
        held.set(lease.key, { epoch, revision: written.seq });
        return { _tag: "Claimed", lease: { key: lease.key, value, epoch } };
      }),
    release: async (lease) => {
      // Best effort: a lease that cannot be released now expires.
      await rewrite(lease, EMPTY, epochOf(lease), [LeaseHeader.operation, RELEASED]).catch(
        () => undefined,
      );
      if (held.get(lease.key)?.epoch === lease.epoch) held.delete(lease.key);
    },
    watch: async (onChange, signal) => {
      await Promise.all(
        buckets.all.map((bucket) => new LeaseWatch(nats, bucket, onChange, signal).start()),
      );
    },
    list: (keyPrefix) =>
      orUnavailable(async () => {
        const read = buckets.withKeys(keyPrefix).map((bucket) => listOf(bucket, keyPrefix));
        return (await Promise.all(read)).flat();
      }),
  };
}

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
