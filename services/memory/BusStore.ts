/**
 * Subscriptions of a `MemoryBroker`, matched to subjects with NATS's wildcards and queue groups.
 */
import type { BusMessage } from "../../core/bus/Bus.ts";

export interface Subscription {
  readonly subject: string;
  readonly queue: string | undefined;
  /** The subscriber's connection. */
  readonly owner: object;
  /** The subscription receives what its own connection publishes too (`BusShape.subscribe`). */
  readonly alone: boolean;
  /** False while the connection is down. The broker ignores the subscription then. */
  readonly reachable: () => boolean;
  readonly deliver: (message: BusMessage) => void;
}

export class BusStore {
  /** The tokens of the subjects, by subscription. */
  private readonly subscriptions = new Map<Subscription, readonly string[]>();
  /** Rotates the members of queue groups. */
  private turn = 0;

  /** The returned function removes the subscription. */
  add(subscription: Subscription): () => void {
    this.subscriptions.set(subscription, subscription.subject.split("."));
    return () => this.subscriptions.delete(subscription);
  }

  /**
   * Delivers a message of the connection `from` to every matching subscription, and to one member
   * of each queue group in turn. Returns the number of deliveries.
   */
  publish(message: BusMessage, from: object): number {
    const groups = new Map<string, Subscription[]>();
    const receivers: Subscription[] = [];
    const tokens = message.subject.split(".");
    for (const [subscription, wanted] of this.subscriptions) {
      if (!matches(wanted, tokens) || !subscription.reachable()) continue;
      if (subscription.owner === from && !subscription.alone) continue;
      if (subscription.queue === undefined) receivers.push(subscription);
      else {
        const key = `${subscription.queue} ${subscription.subject}`;
        groups.set(key, [...(groups.get(key) ?? []), subscription]);
      }
    }
    for (const members of groups.values()) {
      const member = members[this.turn++ % members.length];
      if (member !== undefined) receivers.push(member);
    }
    for (const receiver of receivers) receiver.deliver(message);
    return receivers.length;
  }
}

/** `*` matches one token, a final `>` one or more. */
function matches(wanted: readonly string[], tokens: readonly string[]): boolean {
  for (let i = 0; i < wanted.length; i++) {
    if (wanted[i] === ">") return tokens.length > i;
    if (i >= tokens.length || (wanted[i] !== "*" && wanted[i] !== tokens[i])) return false;
  }
  return wanted.length === tokens.length;
}
