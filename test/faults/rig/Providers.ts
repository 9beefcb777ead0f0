/**
 * Providers that send webhooks: each order until it is answered 2xx (or 500: it is among the dead
 * letters), some twice, at both gateways at once too, some with a signature that is wrong. Every
 * answer is kept.
 */
import { Agent as HttpAgent } from "node:http";
import type { SentInput } from "../../kit/checkers.ts";
import { pollUntil } from "../../kit/poll.ts";
import { postHeld } from "../../kit/postLedger.ts";
import type { Random } from "../../sim/rig/Random.ts";
import { SECRET } from "../../kit/Installation.ts";
import type { Order } from "./rigModule.ts";

/** Longer than the route's deadline. Without an answer by then, a provider asks again. */
const PATIENCE_MS = 5_000;
/** Between two attempts. */
const RETRY_MS = 250;
const SENDERS = 8;
/** Between two requests of a sender: some 80 a second in all, with room for the faults' work. */
const PACE_MS = 100;
/** A take-over of everything, more than once, on a busy machine. */
const MORE_TIMEOUT_MS = 60_000;

export const LEDGERS = Array.from({ length: 24 }, (_, n) => `ledger-${n}`);
/** This many get half of everything, which makes enough events for snapshots. */
const HOT_LEDGERS = 4;
/** The agents whose journal is damaged in some runs. */
export const VICTIM = "victim";

const OPS: Readonly<Record<Order["do"], number>> = {
  mark: 50, split: 10, flaky: 8, queue: 14, schedule: 10, cancel: 2, send: 5, poison: 1,
}; // prettier-ignore
const TWICE_SHARE = 0.15;
const FORGED_SHARE = 0.01;
const DUE_MS_MAX = 6_000;
const SPLIT_MS_MAX = 20;
const FAILS_MAX = 2;

export interface SentOrder {
  readonly order: Order;
  readonly statuses: number[];
  readonly forged: boolean;
}

export class Providers {
  readonly orders = new Map<string, SentOrder>();
  /** Every status; 0 if there was no answer. */
  readonly byStatus = new Map<number, number>();
  /** Answers that took longer than a second: held by a gateway or a host. */
  held = 0;
  twice = 0;
  answered = 0;
  private readonly random: Random;
  private readonly urls: ReadonlyArray<string>;
  private readonly paceMs: number;
  private readonly http = new HttpAgent({ keepAlive: true, maxSockets: 64 });
  private readonly loops: Promise<void>[] = [];
  private readonly others = new Set<Promise<void>>();
  private ended = false;
  private abandoned = false;
  private next = 0;
  /** The victim of the run gets orders once its turn has come. */
  victimShare = 0.02;

  /** `slower`: so many times slower than usual. */
  constructor(random: Random, urls: ReadonlyArray<string>, slower = 1) {
    this.random = random;
    this.urls = urls;
    this.paceMs = slower * PACE_MS;
    for (let n = 0; n < SENDERS; n++) this.loops.push(this.send());
  }

  countOf(...statuses: number[]): number {
    return statuses.reduce((sum, status) => sum + (this.byStatus.get(status) ?? 0), 0);
  }

  /** Resolves when that many more were accepted at the usual pace, or fewer at a slower one. */
  async more(usual: number): Promise<void> {
    const count = Math.ceil((usual * PACE_MS) / this.paceMs);
    const until = this.countOf(200, 202) + count;
    await pollUntil(
      `${count} more webhooks are accepted`,
      () => this.countOf(200, 202) >= until || { done: false, saw: this.byStatus },
      { timeoutMs: MORE_TIMEOUT_MS },
    );
  }

  /** Sends no new orders. Resolves when every order has its answer. */
  async finish(): Promise<void> {
    this.ended = true;
    await Promise.all(this.loops);
    while (this.others.size > 0) await Promise.all(this.others);
    this.http.destroy();
  }

  /** A run that failed: nobody asks again. */
  abandon(): void {
    this.ended = true;
    this.abandoned = true;
    this.http.destroy();
  }

  /** Distinct inputs with every answer that they got. */
  get sent(): SentInput[] {
    return [...this.orders.values()]
      .filter(({ forged }) => !forged)
      .map(({ order, statuses }) => ({ agent: order.agent, key: `github:${order.id}`, statuses }));
  }

  /** Sends one more order for a fault, to any gateway or a given one. Resolves with answers. */
  async order(agent: string, op: Order["do"], gateway?: number): Promise<ReadonlyArray<number>> {
    const sent = this.make(agent, op, false);
    const url = gateway === undefined ? this.random.pick(this.urls) : this.urls[gateway]!;
    await this.post(sent, url);
    return sent.statuses;
  }

  /** Resolves when each gateway has had a webhook done. */
  async everywhere(): Promise<void> {
    await Promise.all(
      this.urls.map((url, gateway) =>
        pollUntil(
          `a webhook at ${url} is done`,
          async () => {
            const statuses = await this.order(this.random.pick(LEDGERS), "mark", gateway);
            return statuses.includes(DONE) || { done: false, saw: statuses };
          },
          { timeoutMs: MORE_TIMEOUT_MS, intervalMs: RETRY_MS },
        ),
      ),
    );
  }

  private async send(): Promise<void> {
    const { random } = this;
    while (!this.ended) {
      const startMs = performance.now();
      const agent = random.chance(this.victimShare)
        ? VICTIM
        : random.chance(0.5)
          ? LEDGERS[random.int(0, HOT_LEDGERS - 1)]!
          : random.pick(LEDGERS);
      const sent = this.make(
        agent,
        agent === VICTIM ? "mark" : random.weighted(OPS),
        random.chance(FORGED_SHARE),
      );
      // Nobody waits for a victim, which may be quarantined. A dead poison that is repeated runs
      // again.
      if (agent === VICTIM || sent.order.do === "poison")
        await this.post(sent, random.pick(this.urls));
      else if (sent.forged) await this.post(sent, random.pick(this.urls));
      else if (random.chance(TWICE_SHARE)) {
        this.twice++;
        const [first, second] = this.urls as [string, string];
        await Promise.all([this.deliver(sent, first), this.deliver(sent, second)]);
        if (random.chance(0.5)) this.aside(this.deliver(sent, random.pick(this.urls)));
      } else await this.deliver(sent);
      await pause(startMs + this.paceMs - performance.now());
    }
  }

  private aside(work: Promise<void>): void {
    const tracked = work.finally(() => this.others.delete(tracked));
    this.others.add(tracked);
  }

  private make(agent: string, op: Order["do"], forged: boolean): SentOrder {
    const { random } = this;
    const order: Order = {
      id: `order-${this.next++}`,
      agent,
      do: op,
      ms: op === "split" ? random.int(1, SPLIT_MS_MAX) : random.int(1, DUE_MS_MAX),
      fails: random.int(0, FAILS_MAX),
    };
    const sent = { order, statuses: [], forged };
    this.orders.set(order.id, sent);
    return sent;
  }

  /** Until it is taken. A dead one is final: sent again it would be run again. */
  private async deliver(sent: SentOrder, first?: string): Promise<void> {
    let url = first ?? this.random.pick(this.urls);
    for (;;) {
      const status = await this.post(sent, url);
      if (status === 200 || status === 202 || status === 500 || this.abandoned) return;
      await pause(RETRY_MS);
      url = this.random.pick(this.urls);
    }
  }

  private async post(sent: SentOrder, url: string): Promise<number> {
    const startMs = performance.now();
    const body = JSON.stringify(sent.order);
    const secret = sent.forged ? "not the secret" : SECRET;
    const { id } = sent.order;
    const agent = this.http;
    const status = await postHeld(url, { body, id, secret, agent, timeoutMs: PATIENCE_MS });
    if (performance.now() - startMs > HELD_MS) this.held++;
    this.answered++;
    sent.statuses.push(status);
    this.byStatus.set(status, (this.byStatus.get(status) ?? 0) + 1);
    return status;
  }
}

const DONE = 200;
/** Nothing takes so long where nothing is broken. */
const HELD_MS = 1_000;

const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
