/**
 * Timeouts for thousands of things at once, nearly all of which are cancelled before they end. All
 * timeouts of a queue share one timer of the clock. Timeouts of one length end in the order in
 * which they began, so adding and cancelling take constant time.
 *
 * A hot path: each webhook has two timeouts, and each durable turn that writes has one. A clock
 * timer for each would be a kilobyte to collect. A cancelled timeout is released at once;
 * otherwise the collector would carry every request of the last seconds.
 */
import { LinkedList } from "../collections/LinkedList.ts";
import type { TimeShape } from "./Time.ts";

interface Timeout {
  readonly dueMs: number;
  readonly run: () => void;
}

const NEVER = Number.POSITIVE_INFINITY;
/** No timeout falls due before this, so none arms the timer. */
const COVERED = Number.NEGATIVE_INFINITY;

export class TimeoutQueue {
  /** By length, each in the order in which its timeouts fall due. */
  private readonly lists = new Map<number, LinkedList<Timeout>>();
  /** When the clock's timer runs. */
  private armedMs = NEVER;
  private cancelTimer: (() => void) | undefined;
  private closed = false;

  /**
   * A timeout ends up to `slackMs` late and never early. Slack bounds how often the clock's timer
   * runs: at most once in that time. Default 0.
   */
  constructor(
    private readonly time: Pick<TimeShape, "monotonicMs" | "after">,
    private readonly slackMs = 0,
  ) {}

  /**
   * Runs `run` once `ms` have passed. The returned function cancels; calling it twice, or too late,
   * does nothing. Each distinct length takes a list for the life of the queue: use few.
   */
  after(ms: number, run: () => void): () => void {
    const nowMs = this.time.monotonicMs();
    const dueMs = nowMs + ms;
    const link = this.listOf(ms).add({ dueMs, run });
    if (dueMs + this.slackMs < this.armedMs) this.arm(ms + this.slackMs, nowMs);
    return () => link.leave();
  }

  /** Cancels the clock's timer: no timeout ends any more, and none keeps the process alive. */
  close(): void {
    this.cancelTimer?.();
    this.closed = true;
    this.armedMs = COVERED;
  }

  private listOf(ms: number): LinkedList<Timeout> {
    let list = this.lists.get(ms);
    if (list === undefined) this.lists.set(ms, (list = new LinkedList()));
    return list;
  }

  /** The timer outlives the last timeout: under load, the next one begins before it runs. */
  private arm(delayMs: number, nowMs: number): void {
    this.cancelTimer?.();
    this.armedMs = nowMs + delayMs;
    this.cancelTimer = this.time.after(delayMs, () => this.expire());
  }

  private expire(): void {
    const nowMs = this.time.monotonicMs();
    // Timeouts that begin meanwhile are covered by the timer that is armed below.
    this.armedMs = COVERED;
    try {
      for (const list of this.lists.values())
        while ((list.first?.dueMs ?? NEVER) <= nowMs) list.shift()!.run();
    } finally {
      // One that throws does not keep the others from ending.
      if (!this.closed) this.armNext(nowMs);
    }
  }

  private armNext(nowMs: number): void {
    this.armedMs = NEVER;
    let nextMs = NEVER;
    for (const { first } of this.lists.values())
      if (first !== undefined && first.dueMs < nextMs) nextMs = first.dueMs;
    if (nextMs < NEVER) this.arm(Math.max(0, nextMs - nowMs) + this.slackMs, nowMs);
  }
}

/** Below this, the timer would cost more than it is worth. */
const SLACK_MS_MIN = 50;
/** An idle server wakes up once a second at most. */
const SLACK_MS_MAX = 1_000;

/** Slack for timeouts of seconds: a quarter of their length is not noticed. */
export const timeoutSlackMs = (shortestTimeoutMs: number): number =>
  Math.min(SLACK_MS_MAX, Math.max(SLACK_MS_MIN, Math.floor(shortestTimeoutMs / 4)));
