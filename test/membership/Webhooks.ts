/**
 * Webhooks at a steady rate, whatever their outcome: each is sent at its time, whether or not
 * earlier ones were answered, so that a pause shows as latency and not as silence. Connections are
 * kept alive, as a provider's are. Nothing is sent twice.
 */
import { createHmac, randomUUID } from "node:crypto";
import { Agent as HttpAgent, request } from "node:http";
import { percentile } from "../bench/rig/statistics.ts";
import type { SentInput } from "../kit/checkers.ts";
import { pollUntil } from "../kit/poll.ts";
import { SECRET } from "./Fleet.ts";

/** Longer than the route's deadline, by which the gateway answers. */
const REQUEST_TIMEOUT_MS = 20_000;
/** Who sends closes idle connections first, as a gateway's close loses what is sent meanwhile. */
const IDLE_MS = 1_000;

/** From a sender by gateway and broker to a turn's begin, many times; short to a slow turn. */
const ON_ITS_WAY_MS = 500;

export interface Sent {
  readonly agent: string;
  readonly id: string;
  /** `performance.now()` when it was sent. */
  readonly atMs: number;
  readonly ms: number;
  /** 0: there was no answer, `error` says why. */
  readonly status: number;
  readonly error?: string;
}

export interface WebhooksOptions {
  readonly url: string;
  /** Path of a GitHub route. Default: the members'. */
  readonly path?: string;
  /** In turn. */
  readonly agents: ReadonlyArray<string>;
  readonly perSecond: number;
  /** No more than so many; else until stopped. */
  readonly count?: number;
  /** More of each body. */
  readonly input?: Readonly<Record<string, unknown>>;
}

export class Webhooks {
  readonly sent: Sent[] = [];
  private readonly options: WebhooksOptions;
  private readonly http = new HttpAgent({ keepAlive: true, timeout: IDLE_MS });
  private readonly open = new Set<Promise<void>>();
  private readonly timer: NodeJS.Timeout;
  private count = 0;

  constructor(options: WebhooksOptions) {
    this.options = options;
    const periodMs = 1_000 / options.perSecond;
    const startMs = performance.now();
    // A timer that is late sends what is due.
    this.timer = setInterval(() => {
      const { count = Infinity } = options;
      while (this.count < count && this.count * periodMs <= performance.now() - startMs) {
        const sending = this.send(options.agents[this.count++ % options.agents.length]!);
        this.open.add(sending);
        void sending.finally(() => this.open.delete(sending));
      }
    }, periodMs);
  }

  /** Resolves when all of a `count` are on their way, and the gateway has surely had them. */
  async allBegun(): Promise<void> {
    const { count = 0 } = this.options;
    await pollUntil(`${count} webhooks are sent`, () => this.count >= count);
    await new Promise((resolve) => setTimeout(resolve, ON_ITS_WAY_MS));
  }

  /** Resolves when all that were sent are answered. */
  async stop(): Promise<void> {
    clearInterval(this.timer);
    await Promise.all(this.open);
    this.http.destroy();
  }

  get failed(): ReadonlyArray<Sent> {
    return this.sent.filter(({ status }) => status < 200 || status > 299);
  }

  get inputs(): SentInput[] {
    return this.sent.map(({ agent, id, status }) => ({
      agent,
      key: `github:${id}`,
      statuses: [status],
    }));
  }

  private async send(agent: string): Promise<void> {
    const id = randomUUID();
    const atMs = performance.now();
    const body = JSON.stringify({ agent, ...this.options.input });
    const { url, path = "/webhooks/github" } = this.options;
    const answer = await post(url + path, { id, body, http: this.http });
    this.sent.push({ agent, id, atMs, ms: performance.now() - atMs, ...answer });
  }
}

interface Post {
  readonly id: string;
  readonly body: string;
  readonly http: HttpAgent;
}

function post(url: string, { id, body, http }: Post): Promise<Pick<Sent, "status" | "error">> {
  const signature = createHmac("sha256", SECRET).update(body).digest("hex");
  return new Promise((resolve) => {
    const outgoing = request(
      url,
      {
        method: "POST",
        agent: http,
        timeout: REQUEST_TIMEOUT_MS,
        headers: {
          "content-type": "application/json",
          "content-length": Buffer.byteLength(body),
          "x-hub-signature-256": `sha256=${signature}`,
          "x-github-event": "push",
          "x-github-delivery": id,
        },
      },
      (response) => {
        response.resume();
        response.once("close", () => resolve({ status: response.statusCode ?? 0 }));
      },
    );
    outgoing.once("timeout", () => outgoing.destroy(new Error("no answer in time")));
    outgoing.once("error", (error) => resolve({ status: 0, error: error.message }));
    outgoing.end(body);
  });
}

/** Columns of a table of latencies. */
export function latencies(sent: ReadonlyArray<{ readonly ms: number }>) {
  const ms = sent.map((one) => one.ms);
  return {
    "p50 ms": percentile(ms, 50),
    "p99 ms": percentile(ms, 99),
    "most ms": percentile(ms, 100),
  };
}

/** Failures by what happened, for people. */
export function explain(failed: ReadonlyArray<Sent>): string {
  const kinds = new Map<string, number>();
  for (const { status, error = `status ${status}` } of failed)
    kinds.set(error, (kinds.get(error) ?? 0) + 1);
  return [...kinds].map(([kind, count]) => `${count} × ${kind}`).join(", ") || "none";
}
