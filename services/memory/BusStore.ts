/** The subscriptions of a `MemoryBroker` and the matching of subjects, with NATS's wildcards and queue groups. */
import type { BusMessage } from "../../core/bus/Bus.ts";

export interface Subscription {
  readonly subject: string;
  readonly queue: string | undefined;
  /** Who listens. */
  readonly owner: object;
  /** It gets what its owner publishes too. */
  readonly alone: boolean;
  /** False while its connection is down: it does not exist for the broker then. */
  readonly reachable: () => boolean;
  readonly deliver: (message: BusMessage) => void;
}

export class BusStore {
  /** With the tokens of their subjects. */
  private readonly subscriptions = new Map<Subscription, readonly string[]>();
  private turn = 0;

  add(subscription: Subscription): () => void {
    this.subscriptions.set(subscription, subscription.subject.split("."));
    return () => this.subscriptions.delete(subscription);
  }

  /** Gives what `from` publishes to every match, and to one member of each queue group in turn. Returns how many got it. */
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

/** `*` is one token, a last `>` one or more. */
function matches(wanted: readonly string[], tokens: readonly string[]): boolean {
  for (let i = 0; i < wanted.length; i++) {
    if (wanted[i] === ">") return tokens.length > i;
    if (i >= tokens.length || (wanted[i] !== "*" && wanted[i] !== tokens[i])) return false;
  }
  return wanted.length === tokens.length;
}
