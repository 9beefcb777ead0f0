/**
 * Streams news to open pages. Each page reads one response, a body of JSON lines that lasts as long
 * as the page is open. `ConsoleSource.follow` provides the news.
 *
 * 1. News that a slow page has not read is merged: the last event of each agent is kept, and the
 *    last deliveries. Waiting news is therefore bounded at any rate.
 * 2. There is a pause between two lines, so that a page draws no more often than somebody can see.
 * 3. A line comes at least every `QUIET_MS`, so that both ends notice a connection that is gone.
 */
import type {
  ConsoleNews,
  ConsoleSource,
  FollowedAgent,
} from "../../core/console/ConsoleSource.ts";
import type { BodyReader } from "../../core/http/HttpServer.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { sleep } from "../../core/time/sleep.ts";
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";

/** Each page follows the journals. */
const PAGES_MAX = 64;
/** Rule 1: the most agents, and the most deliveries, that a line names. */
const NAMED_MAX = 500;
/** Rule 2. */
const PAUSE_MS = 200;
/** Rule 3: less than proxies wait, and than the ten seconds of uWebSockets.js. */
const QUIET_MS = 5_000;

/** One line. An empty one is sent for rule 3. */
interface NewsLine {
  /** Empty: more agents than a line names. */
  readonly agents?: ReadonlyArray<readonly [className: string, name: string, seq: number]>;
  readonly deliveries?: ReadonlyArray<DeliveryRecord>;
  readonly connections?: true;
  readonly overview?: unknown;
  /** In every line until the broker answers again. */
  readonly unreachable?: true;
}

export class NewsStreams {
  private pages = 0;

  constructor(
    private readonly source: Pick<ConsoleSource, "follow">,
    private readonly time: Pick<TimeShape, "after">,
  ) {}

  /** Undefined: too many pages are open. */
  open(wanted: FollowedAgent | undefined): BodyReader | undefined {
    if (this.pages >= PAGES_MAX) return undefined;
    this.pages++;
    const news = new News();
    const stop = this.source.follow(wanted, (one) => news.add(one));
    const encoder = new TextEncoder();
    let ended = false;
    let first = true;
    return {
      read: async () => {
        // The first line is sent at once: the page then knows that it receives all later news.
        if (!first) await this.pause(news);
        first = false;
        if (ended) return { done: true, value: undefined };
        return { done: false, value: encoder.encode(`${JSON.stringify(news.take())}\n`) };
      },
      cancel: async () => {
        if (ended) return;
        ended = true;
        this.pages--;
        stop();
        news.wake();
      },
    };
  }

  /** Rules 2 and 3. */
  private async pause(news: News): Promise<void> {
    await sleep(this.time, PAUSE_MS);
    if (!news.isEmpty) return;
    await new Promise<void>((resolve) => {
      const cancel = this.time.after(QUIET_MS, resolve);
      news.onNews = () => {
        cancel();
        resolve();
      };
    });
  }
}

/** The news to send. */
class News {
  /** Called with the next news. */
  onNews: () => void = () => undefined;
  private readonly agents = new Map<string, readonly [string, string, number]>();
  private isTooMany = false;
  private deliveries: DeliveryRecord[] = [];
  private connections = false;
  private overview: unknown;
  private unreachable = false;
  private isTold = true;

  get isEmpty(): boolean {
    return (
      this.agents.size === 0 &&
      this.deliveries.length === 0 &&
      !this.connections &&
      this.overview === undefined &&
      this.isTold
    );
  }

  add(news: ConsoleNews): void {
    if ("agent" in news) {
      const [className, name] = news.agent;
      const key = `${className}/${name}`;
      if (this.agents.size < NAMED_MAX || this.agents.has(key))
        this.agents.set(key, [className, name, news.seq]);
      else this.isTooMany = true;
    } else if ("deliveries" in news)
      this.deliveries = [...this.deliveries, ...news.deliveries].slice(-NAMED_MAX);
    else if ("connections" in news) this.connections = true;
    else {
      this.unreachable = "unreachable" in news;
      this.isTold = false;
      if ("overview" in news) this.overview = news.overview;
    }
    this.wake();
  }

  wake(): void {
    const { onNews } = this;
    this.onNews = () => undefined;
    onNews();
  }

  take(): NewsLine {
    const line = {
      ...(this.agents.size > 0 && { agents: this.isTooMany ? [] : [...this.agents.values()] }),
      ...(this.deliveries.length > 0 && { deliveries: this.deliveries }),
      ...(this.connections && { connections: true as const }),
      ...(this.overview !== undefined && { overview: this.overview }),
      ...(this.unreachable && { unreachable: true as const }),
    };
    this.isTold = true;
    this.agents.clear();
    this.isTooMany = false;
    this.deliveries = [];
    this.connections = false;
    this.overview = undefined;
    return line;
  }
}
