/**
 * The waits of the steps of one run: for a time, an event, the end of a pause before a retry, or
 * the instance's resumption. Part of `Execution`, which settles the steps.
 *
 * 1. Each wait has its own schedule (`Wakes`), so the agent may leave memory.
 * 2. A wake that arrives too early is armed again: the clock of another host may be behind, or this
 *    one's was set back.
 * 3. An arrival is looked up only for the steps that it may concern: each of thousands of waiting
 *    steps costs queries.
 */
import type { AgentWork } from "../turn/AgentWork.ts";
import type { AwaitedEvents, Question } from "./AwaitedEvents.ts";
import type { RunTable, StepRecord } from "./RunTable.ts";
import { causeOf, type Outcome } from "./stepFacts.ts";
import type { Wakes } from "./Wakes.ts";

export interface WaitsHost {
  readonly runtime: AgentWork;
  readonly table: RunTable;
  readonly isPaused: () => boolean;
  readonly wakes: Wakes;
  readonly events: AwaitedEvents;
}

/** The run whose steps wait. */
interface WaitsOwner {
  isAbandoned(): boolean;
  /** Called when a wait begins. */
  look(): void;
  settle(record: StepRecord, outcome: Outcome): Promise<void>;
  /** Called when a write has failed. */
  unrecorded(error: unknown): void;
}

/** What may end a wait: the wake of the step with this key, an answer to it, or an event. */
export type Arrival = { readonly key: string } | { readonly eventType: string };

interface Waiting {
  readonly record: StepRecord;
  /** Called when the wait's time has passed. */
  readonly onDue: () => void;
}

export class StepWaits {
  /** By the step's key. */
  private readonly waiting = new Map<string, Waiting>();
  private parked: Array<() => void> = [];
  /** The instance was paused when something arrived, or when a wait began. */
  private isLate = false;

  constructor(
    private readonly host: WaitsHost,
    private readonly owner: WaitsOwner,
  ) {}

  get isEmpty(): boolean {
    return this.waiting.size + this.parked.length === 0;
  }

  /** Ends all waits. Their schedules stay. */
  clear(): void {
    this.waiting.clear();
    this.parked = [];
  }

  add(record: StepRecord, isNew: boolean, onDue: () => void, question?: Question): void {
    const { table, wakes, events } = this.host;
    const waiting = { record, onDue };
    this.waiting.set(record.key, waiting);
    if (isNew)
      this.write(record, () => {
        table.put(record);
        wakes.add(record.key, record.dueMs!);
        if (question !== undefined) events.ask(record, question);
      });
    this.look(waiting);
    this.owner.look();
  }

  remove(key: string): void {
    this.waiting.delete(key);
  }

  /** Resolves when the instance is resumed. */
  unpaused(record: StepRecord): Promise<void> {
    this.write(record, () => this.host.table.put(record));
    return new Promise((resolve) => {
      this.parked.push(resolve);
      this.owner.look();
    });
  }

  /** The instance is not paused. Continues what waited for that. */
  unpark(): void {
    const parked = this.parked;
    this.parked = [];
    for (const go of parked) go();
    if (!this.isLate) return;
    this.isLate = false;
    for (const waiting of this.waiting.values()) this.look(waiting);
  }

  /** Rule 3. */
  check(arrival: Arrival): void {
    if ("key" in arrival) {
      const waiting = this.waiting.get(arrival.key);
      if (waiting !== undefined) this.look(waiting);
      return;
    }
    for (const waiting of this.waiting.values())
      if (waiting.record.eventType === arrival.eventType) this.look(waiting);
  }

  private look({ record, onDue }: Waiting): void {
    const { runtime, events, wakes, isPaused } = this.host;
    if (this.owner.isAbandoned() || !this.waiting.has(record.key)) return;
    if (isPaused()) {
      this.isLate = true;
      return;
    }
    if (record.eventType !== null) {
      const event = runtime.inBackground(() => events.take(record));
      if (event !== undefined) return void this.owner.settle(record, event);
    }
    if (record.dueMs! > runtime.time.nowMs()) {
      if (!wakes.has(record.key)) this.write(record, () => wakes.add(record.key, record.dueMs!));
      return; // rule 2
    }
    this.waiting.delete(record.key);
    onDue();
  }

  /** Writes in a new turn: the running one may be durable, and its writes wait for its end. */
  private write(record: StepRecord, f: () => void): void {
    const { runtime } = this.host;
    runtime
      .asTurn(causeOf(record), async () => f())
      .catch((error: unknown) => this.owner.unrecorded(error));
  }
}
