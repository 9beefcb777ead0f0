/**
 * Fetches and removes the bodies of a shard's inputs that are past the broker's payload limit
 * (`layout/claimCheck`). `ShardConsumer` passes each delivery through it.
 *
 * 1. The body of a claim check is fetched before the delivery; later deliveries wait.
 * 2. The body is removed once the message has left the stream. An ack alone may be lost, and the
 *    next owner would find the input without its body.
 */
import { setTimeout as delay } from "node:timers/promises";
import { NotPermitted } from "../../core/bus/Bus.ts";
import { messageOf } from "../../core/errors/thrown.ts";
import type { Delivery } from "../../core/inbox/Inbox.ts";
import type { BlobsShape } from "../../core/journal/Blobs.ts";
import type { NatsShape } from "./client/Nats.ts";
import { retryPause } from "./client/retryPause.ts";
import { findClaimCheck, resolveOrKeep } from "./layout/claimCheck.ts";

/** How long after an ack the stream is checked for the message, and how many times. */
const BODY_CHECK_MS = 1_000;
const BODY_CHECKS = 5;

interface DeliveryBodiesOptions {
  /** The stream of the shard's inbox. */
  readonly stream: string;
  /** Fires when the consumer stops: nothing is delivered or removed any more. */
  readonly signal: AbortSignal;
  readonly deliver: (delivery: Delivery) => void;
}

export class DeliveryBodies {
  /** Set while a body is fetched: the deliveries that wait for it (rule 1). */
  private waiting: Delivery[] | undefined;

  constructor(
    private readonly nats: Pick<NatsShape, "connection" | "reader" | "waitingWrites">,
    private readonly blobs: BlobsShape,
    private readonly options: DeliveryBodiesOptions,
  ) {}

  get isFetching(): boolean {
    return this.waiting !== undefined;
  }

  /** Delivers it with its body, after those before it. */
  deliver(delivery: Delivery): void {
    if (this.options.signal.aborted) return;
    if (this.waiting !== undefined) this.waiting.push(delivery);
    // A damaged claim check names no body: the host treats the input as corrupt.
    else if (findClaimCheck(delivery.data) === undefined) this.options.deliver(delivery);
    else {
      this.waiting = [delivery];
      void this.deliverWaiting(this.waiting);
    }
  }

  private async deliverWaiting(queue: Delivery[]): Promise<void> {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const data = await this.fetch(next);
      if (this.options.signal.aborted) return;
      this.options.deliver({ ...next, data, ack: () => this.ackAndRemove(next) });
    }
    this.waiting = undefined;
  }

  private async fetch(delivery: Delivery): Promise<Uint8Array> {
    const { connection, waitingWrites } = this.nats;
    const { signal, stream } = this.options;
    const what = `returned the body of an input of ${stream}`;
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        const data = await resolveOrKeep(this.blobs, delivery.data);
        waitingWrites.stored(what);
        return data;
      } catch (error) {
        if (waitingWrites.refuse(what, error))
          connection.log("warn", "an input's body can't be read; its shard's inputs wait", {
            stream,
            seq: delivery.seq,
            why: messageOf(error),
          });
        await retryPause(connection, attempt, signal);
      }
    }
    waitingWrites.stored(what);
    return delivery.data;
  }

  /** Rule 2. */
  private ackAndRemove({ seq, data, ack }: Delivery): void {
    ack();
    const check = findClaimCheck(data);
    if (check !== undefined)
      void this.remove(seq, check.blob).catch((error: unknown) =>
        this.nats.connection.log("warn", "the body of an acked input could not be removed", {
          blob: check.blob,
          error: String(error),
        }),
      );
  }

  /** Rejects with `NotPermitted`. */
  private async remove(seq: number, blob: string): Promise<void> {
    const { signal } = this.options;
    for (let [check, attempt] = [0, 0]; check < BODY_CHECKS;) {
      await delay(BODY_CHECK_MS, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return; // it stays until its agent is erased
      try {
        if (await this.hasLeft(seq)) return await this.blobs.remove(blob);
        check++;
      } catch (error) {
        // While the broker does not answer, nothing is checked.
        if (error instanceof NotPermitted) throw error;
        await retryPause(this.nats.connection, attempt++, signal);
      }
    }
  }

  private async hasLeft(seq: number): Promise<boolean> {
    return (await this.nats.reader.byLeader(this.options.stream, { seq })) === undefined;
  }
}
