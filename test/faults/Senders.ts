/** Providers that send signed webhooks once each. The last part waits until `release`. */
import { Agent as HttpAgent } from "node:http";
import type { SentInput } from "../kit/checkers.ts";
import { pollUntil } from "../kit/poll.ts";
import { postHeld } from "../kit/postLedger.ts";

export interface Delivery {
  readonly agent: string;
  readonly id: string;
}

export interface SendersOptions {
  readonly url: string;
  readonly secret: string;
  readonly deliveries: ReadonlyArray<Delivery>;
  readonly concurrency: number;
  /** A sender waits this long between two requests, at least. */
  readonly paceMs: number;
  /** Deliveries at the end that wait for `release`. */
  readonly heldBack: number;
  /** For an answer; longer than the route's deadline. Default 20,000. */
  readonly timeoutMs?: number;
}

/** Longer than the deadlines of most routes. */
const REQUEST_TIMEOUT_MS = 20_000;

export class Senders {
  readonly finished: Promise<void>;
  answered = 0;
  slowestMs = 0;
  readonly byStatus = new Map<number, number>();
  private readonly options: SendersOptions;
  private readonly statuses = new Map<string, { delivery: Delivery; statuses: number[] }>();
  private readonly http: HttpAgent;
  private next = 0;
  private open: number;

  constructor(options: SendersOptions) {
    this.options = options;
    this.open = options.deliveries.length - options.heldBack;
    this.http = new HttpAgent({ keepAlive: true, maxSockets: options.concurrency });
    this.finished = Promise.all(
      Array.from({ length: options.concurrency }, () => this.sendSome()),
    ).then(() => this.http.destroy());
    // Awaited by the test at its end; a failure before must not end the worker.
    this.finished.catch(() => undefined);
  }

  /** Lets the last deliveries go. */
  release(): void {
    this.open = this.options.deliveries.length;
  }

  /** Resolves when this many more were answered. Releases held-back deliveries as needed. */
  async more(count: number): Promise<void> {
    const until = Math.min(this.answered + count, this.options.deliveries.length);
    this.open = Math.max(this.open, until);
    await pollUntil(
      `${count} more webhooks are answered`,
      () => this.answered >= until || { done: false, saw: [this.answered, this.byStatus] },
    );
  }

  /** Each distinct input with every answer that it got. */
  get sent(): SentInput[] {
    return [...this.statuses.values()].map(({ delivery, statuses }) => ({
      agent: delivery.agent,
      key: `github:${delivery.id}`,
      statuses,
    }));
  }

  private async sendSome(): Promise<void> {
    const { deliveries, paceMs } = this.options;
    while (this.next < deliveries.length) {
      if (this.next >= this.open) {
        await pause(paceMs);
        continue;
      }
      const delivery = deliveries[this.next++]!;
      const startMs = performance.now();
      const status = await this.send(delivery);
      this.answered++;
      this.slowestMs = Math.max(this.slowestMs, performance.now() - startMs);
      this.byStatus.set(status, (this.byStatus.get(status) ?? 0) + 1);
      const known = this.statuses.get(delivery.id);
      if (known === undefined) this.statuses.set(delivery.id, { delivery, statuses: [status] });
      else known.statuses.push(status);
      await pause(startMs + paceMs - performance.now());
    }
  }

  /** The answer's status; 0 when there was none. */
  private send({ agent, id }: Delivery): Promise<number> {
    const body = JSON.stringify({ agent, id });
    const { url, secret, timeoutMs = REQUEST_TIMEOUT_MS } = this.options;
    return postHeld(url, { body, id, secret, agent: this.http, timeoutMs });
  }
}

const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
