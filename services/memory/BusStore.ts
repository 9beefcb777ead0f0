/**
 * Subscriptions of a `MemoryBroker`, matched to subjects with NATS's wildcards and queue groups.
 */
import type { BusMessage } from "../../core/bus/Bus.ts";

interface Subscription {
  readonly subject: string;
  readonly queue: string | undefined;
  readonly owner: object;
  /** The subscription receives what its own connection publishes too (`BusShape.subscribe`). */
  readonly alone: boolean;
  /** False while the connection is down. The broker ignores the subscription then. */
  readonly reachable: () => boolean;
  readonly deliver: (message: BusMessage) => void;
}

interface Added {
  readonly subscription: Subscription;
  /** Messages are delivered in the order of subscribing. */
  readonly order: number;
}

export class BusStore {
  /** By subject. Each request that waits has one, so they are not searched. */
  private readonly plain = new Map<string, Set<Added>>();
  /** Those with a wildcard, and the tokens of their subjects. */
  private readonly wild = new Map<Added, readonly string[]>();
  private lastOrder = 0;
  /** Rotates the members of queue groups. */
  private turn = 0;

  /** The returned function removes the subscription. */
  add(subscription: Subscription): () => void {
    const { subject } = subscription;
    const added = { subscription, order: ++this.lastOrder };
    if (/[*>]/.test(subject)) {
      this.wild.set(added, subject.split("."));
      return () => this.wild.delete(added);
    }
    const same = this.plain.get(subject) ?? new Set();
    this.plain.set(subject, same.add(added));
    return () => {
      same.delete(added);
      if (same.size === 0 && this.plain.get(subject) === same) this.plain.delete(subject);
    };
  }

  /**
   * Delivers a message of the connection `from` to every matching subscription, and to one member
   * of each queue group in turn. Returns the number of deliveries.
   */
  publish(message: BusMessage, from: object): number {
    const groups = new Map<string, Subscription[]>();
    const receivers: Subscription[] = [];
    for (const { subscription } of this.matching(message.subject)) {
      if (!subscription.reachable()) continue;
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

  private matching(subject: string): ReadonlyArray<Added> {
    const same = [...(this.plain.get(subject) ?? [])];
    const tokens = subject.split(".");
    const wild = [...this.wild].filter(([, wanted]) => matches(wanted, tokens));
    if (wild.length === 0) return same;
    return [...same, ...wild.map(([added]) => added)].toSorted((a, b) => a.order - b.order);
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
