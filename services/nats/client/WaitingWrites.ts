/**
 * What the process can't store at the broker, for `/readyz` and `agents_unstored_seconds`: events
 * (`NatsJournal`), timers (`NatsTimers`), consumers of shards (`ShardConsumer`) and of due timers
 * (`DueRelay`). A body that can't be read is here, too (`DeliveryBodies`): inputs wait for it. So
 * is a subscription that the login may not have, and answers, pulls and acks that it may not send:
 * no reply to them is awaited, so nobody else learns of it.
 *
 * A write that is tried in one place begins and ends there. One whose caller tries again later is
 * refused each time. It waits until one of its kind is stored, or nobody has tried for a while. A
 * refused subscription stays, because the client has given it up.
 */
import { setImmediate } from "node:timers/promises";
import { NotPermitted } from "../../../core/bus/Bus.ts";
import type { Subjects } from "../../../schemas/Subjects.ts";
import { ELECTIONS } from "./AckPublisher.ts";
import type { NatsConnectionShape } from "./NatsConnection.ts";
import { notPermitted } from "./ReplyInbox.ts";

/** What is sent again and again until it is stored. */
export interface WaitingWrite {
  /** For people, what the broker has not done: "stored an event of agents_JOURNAL". */
  readonly what: string;
  /** By `performance.now()`. */
  readonly sinceMs: number;
  /** Why the last attempt failed: a text or an error. `NotPermitted`: a right is missing. */
  reason: unknown;
}

/** Agents whose events are refused start again within half a minute (`SlotStart`). */
const TRIED_MS_MAX = 45_000;

const PULL_OR_ACK = /^\$JS\.(?:ACK|API\.CONSUMER\.MSG\.NEXT)\./;

export class WaitingWrites {
  private readonly begun = new Set<WaitingWrite>();
  private readonly refused = new Map<string, { write: WaitingWrite; expiry: NodeJS.Timeout }>();
  private subscription: WaitingWrite | undefined;
  private lastRefusal: { readonly why: string; readonly atMs: number } | undefined;

  constructor(
    private readonly connection: Pick<NatsConnectionShape, "connected" | "onDenied">,
    subjects: Pick<Subjects, "isAnswerAddress" | "isOfGateway">,
  ) {
    connection.onDenied((subject, operation) => {
      const reason = new NotPermitted({ message: notPermitted(subject) });
      this.lastRefusal = { why: reason.message, atMs: performance.now() };
      if (operation === "publish") {
        if (
          subjects.isAnswerAddress(subject) ||
          subjects.isOfGateway(subject) ||
          PULL_OR_ACK.test(subject)
        )
          this.refuse("accepted an answer, a pull or an ack", reason);
      } else if (subject !== ELECTIONS)
        // Without elections, lost acks are noticed later.
        this.subscription ??= { what: `delivered ${subject}`, sinceMs: performance.now(), reason };
    });
  }

  get all(): ReadonlyArray<WaitingWrite> {
    const tried = [...this.begun, ...Array.from(this.refused.values(), ({ write }) => write)];
    const { subscription } = this;
    return subscription === undefined ? tried : [subscription, ...tried];
  }

  /** What the login lacks, by what the broker refused last; undefined some time after that. */
  get refusal(): string | undefined {
    const { why, atMs = -Infinity } = this.lastRefusal ?? {};
    return performance.now() - atMs <= TRIED_MS_MAX ? why : undefined;
  }

  /** The first subscription that the login may not have. */
  get refusedSubscription(): NotPermitted | undefined {
    return this.subscription?.reason as NotPermitted | undefined;
  }

  begin(what: string): WaitingWrite {
    const write = { what, sinceMs: performance.now(), reason: "not tried" };
    this.begun.add(write);
    return write;
  }

  end(write: WaitingWrite): void {
    this.begun.delete(write);
  }

  /**
   * Returns whether a line of the log is due. One refusal may be the end of an election, and a lost
   * connection has a line of its own.
   */
  refuse(what: string, reason: unknown): boolean {
    const known = this.refused.get(what);
    clearTimeout(known?.expiry);
    const write = known?.write ?? { what, sinceMs: performance.now(), reason };
    write.reason = reason;
    const expiry = setTimeout(() => this.stored(what), TRIED_MS_MAX).unref();
    this.refused.set(what, { write, expiry });
    return known !== undefined && this.connection.connected();
  }

  get hasRefused(): boolean {
    return this.refused.size > 0;
  }

  stored(what: string): void {
    clearTimeout(this.refused.get(what)?.expiry);
    this.refused.delete(what);
  }
}

/**
 * Rejects with `NotPermitted` if the login may not have one of the subscriptions so far: the
 * process would serve, and never receive what others send it. The server refuses them before it
 * answers the round trip.
 */
export async function checkSubscriptions(
  connection: Pick<NatsConnectionShape, "roundTripMs">,
  writes: Pick<WaitingWrites, "refusedSubscription">,
): Promise<void> {
  await connection.roundTripMs().catch(() => undefined);
  await setImmediate(); // the client reports refusals a few steps after it reads them
  if (writes.refusedSubscription !== undefined) throw writes.refusedSubscription;
}
