/**
 * One `run()` of a workflow in memory: returns recorded results to its steps, or runs them.
 * `WorkflowRun` makes it; it is dropped when the agent leaves memory, and the next one replays the
 * record.
 *
 * 1. A step's result is stored before `run` receives it. Results have one order (`StepOrder`), the
 *    same in every replay.
 * 2. A step's function runs at least once, always under the same key: a host that dies in it leaves
 *    no result.
 * 3. An attempt that its host's death cuts short spends no retry. `CRASHES_MAX` of them fail the
 *    step, which may be the cause. After a death, an attempt is stored before its function runs,
 *    until one step has ended in this life: each life then spends an attempt or makes progress.
 *    Otherwise it is stored while the function runs. `run` itself is bounded likewise.
 * 4. `quiet` resolves when only waits are left. Each has a schedule of its own, so the agent may
 *    leave memory.
 * 5. Once abandoned (terminated, restarted, discarded) it is inert: its promises never settle.
 * 6. A wake that comes too early is armed again: the clock of another host may be behind, or this
 *    one's was set back.
 */
import type { AgentWork } from "../turn/AgentWork.ts";
import type { AwaitedEvents, Question } from "./AwaitedEvents.ts";
import { AgentDestroyed, AgentDiscarded } from "../errors/errors.ts";
import { describeThrown, reviveError, WorkflowCodeChanged, type StoredError } from "./errors.ts";
import type { RunTable, StepKind, StepRecord } from "./RunTable.ts";
import { retryDelayMs, type ResolvedConfig } from "./stepConfig.ts";
import { checkStepName } from "../step/stepKey.ts";
import { isFinalForAll } from "../step/stepResult.ts";
import { StepFunctions } from "./StepFunctions.ts";
import { StepOrder } from "./StepOrder.ts";
import { causeOf, crashedOut, nameOf, stepOf, toResult } from "./stepFacts.ts";
import type { Wakes } from "./Wakes.ts";
import type { StepContext } from "./WorkflowStep.ts";

/** A long step meets some deployments; one that kills its host meets the next host at once. */
export const CRASHES_MAX = 20;
/** Promise jobs in which `run` may begin its next step, before it counts as waiting. */
const HOPS = 32;

export interface ExecutionHost {
  readonly runtime: AgentWork;
  readonly table: RunTable;
  /** Start of the idempotency keys of this generation. */
  readonly keys: string;
  readonly isPaused: () => boolean;
  /** How often the drive was journaled as begun. Above 0, hosts may have died of it (rule 3). */
  readonly begun: () => number;
  /** Called when work begins while no drive runs. */
  readonly ensureDriven: () => void;
  readonly wakes: Wakes;
  readonly events: AwaitedEvents;
  readonly onCodeChanged: (error: WorkflowCodeChanged) => void;
}

interface Outcome {
  readonly result?: string | null;
  readonly error?: StoredError;
}

/** A step that waits for its time, or for an event. */
interface Waiting {
  readonly record: StepRecord;
  /** Its time is over. */
  readonly onDue: () => void;
}

type Settle = (record: StepRecord) => void;

export class Execution {
  private readonly host: ExecutionHost;
  private readonly order: StepOrder;
  private readonly waiting = new Map<string, Waiting>();
  private readonly functions: StepFunctions;
  private parked: Array<() => void> = [];
  private positions: number;
  /** Steps that run or are being stored. */
  private active = 0;
  private readonly settlers = new Map<string, Settle>(); // by the step's key
  private over = false;
  private abandoned = false;
  /** Rule 3: a step has ended in this life, and its end is stored. */
  private hasProgress = false;
  private onQuiet: Array<() => void> = [];

  constructor(host: ExecutionHost) {
    this.host = host;
    this.functions = new StepFunctions(host.runtime);
    const records = host.table.steps();
    this.positions = records.length;
    this.order = new StepOrder(records);
  }

  get replaying(): boolean {
    return this.order.replaying;
  }
  get isAbandoned(): boolean {
    return this.abandoned;
  }
  /** A step runs, or its result is being stored. */
  get isRunning(): boolean {
    return this.active > 0;
  }

  /** Rule 5. */
  abandon(): void {
    this.abandoned = true;
    this.functions.abandon();
    this.waiting.clear();
    this.parked = [];
    this.finish();
  }

  /** Throws when hosts died of `run` too often. A death within a step counts for that step. */
  checkDeaths(): void {
    const inSteps = this.host.table.steps().reduce((sum, { attempts }) => sum + attempts, 0);
    const times = this.host.begun() - 1 - inSteps;
    if (times >= CRASHES_MAX)
      throw new Error(
        `run did not end ${times} times outside of its steps: its host was gone each time`,
      );
  }

  /** `run` has ended. Throws `WorkflowCodeChanged` when the record goes on. */
  checkEnd(): void {
    this.order.end();
  }

  /** Nothing is left to do. */
  finish(): void {
    this.over = true;
    this.look();
  }

  /** Resolves when it is over, or only waits (rule 4). */
  async quiet(): Promise<void> {
    for (;;) {
      for (let hop = 0; hop < HOPS; hop++) await Promise.resolve();
      if (this.over || this.onlyWaits) return;
      await new Promise<void>((resolve) => this.onQuiet.push(resolve));
    }
  }

  /** The instance was resumed: steps that were held back begin. */
  unpark(): void {
    const parked = this.parked;
    this.parked = [];
    for (const go of parked) go();
  }

  /** Times may be over, events may have come. */
  checkWaits(): void {
    for (const waiting of this.waiting.values()) this.checkWait(waiting);
  }

  /**
   * One step: recorded, or begun now by `begin`, which ends it by `settle`. Never settles once
   * abandoned. Rejects with a `TypeError` for an invalid name.
   */
  step(
    kind: StepKind,
    name: string,
    begin: (record: StepRecord, isNew: boolean) => void,
    fresh: { readonly dueMs?: number; readonly eventType?: string } = {},
  ): Promise<unknown> {
    checkStepName(name, `step.${kind}`);
    return new Promise((resolve, reject) => {
      if (this.over) return;
      const key = this.order.keyOf(name);
      try {
        const recorded = this.order.ask(key, kind);
        const give: Settle = ({ error, result }) => {
          if (error !== null) reject(reviveError(error));
          else resolve(result === null ? undefined : (JSON.parse(result) as unknown));
        };
        if (recorded !== undefined && recorded.endedAt !== null) {
          this.order.addReady(key, () => give(recorded));
          return;
        }
        const record: StepRecord = recorded ?? {
          key,
          kind,
          position: ++this.positions,
          after: this.order.given,
          endedAt: null,
          attempts: 0,
          failures: 0,
          dueMs: fresh.dueMs ?? null,
          eventType: fresh.eventType ?? null,
          result: null,
          error: null,
        };
        this.settlers.set(key, give);
        begin(record, recorded === undefined);
        this.order.giveReady();
      } catch (error) {
        if (error instanceof WorkflowCodeChanged) this.host.onCodeChanged(error);
        else if (!this.lost(error)) reject(error as Error);
      }
    });
  }

  /** A function's attempts, from where the record left off. */
  async runFunction(
    record: StepRecord,
    config: ResolvedConfig,
    f: (ctx: StepContext) => unknown,
  ): Promise<void> {
    try {
      await this.attempts(record, config, f);
    } catch (error) {
      this.unrecorded(error);
    }
  }

  /** A wait, until its time, an event of its type, or an answer to its question. */
  wait(
    record: StepRecord,
    isNew: boolean,
    { onTimeout, question }: { onTimeout?: () => Outcome; question?: Question | undefined } = {},
  ): void {
    this.addWait(record, isNew, () => void this.settle(record, onTimeout?.() ?? {}), question);
  }

  /** Changes the record, in one commit. Held back while paused, like the begin of a step. */
  tell(record: StepRecord, send: (record: StepRecord) => void): void {
    const tell = (): void => void this.settle(record, {}, () => send(record));
    if (this.host.isPaused()) void this.unpaused(record).then(tell);
    else tell();
  }

  private async attempts(
    record: StepRecord,
    config: ResolvedConfig,
    f: (ctx: StepContext) => unknown,
  ): Promise<void> {
    const { runtime, table, keys, begun } = this.host;
    // A pause that is recorded already has its wake.
    let isNew = false;
    for (;;) {
      if (record.dueMs !== null) await this.retryPause(record, isNew);
      isNew = true;
      if (this.host.isPaused()) await this.unpaused(record);
      if (this.abandoned) return;
      if (record.attempts - record.failures >= CRASHES_MAX)
        return this.settle(record, { error: crashedOut(record) });
      this.begins();
      const attempt = ++record.attempts;
      const ctx = { key: `${keys}:${record.key}`, attempt, step: stepOf(record) };
      let thrown: { readonly error: unknown } | undefined;
      let result: string | null | undefined;
      try {
        result = await runtime.asTurn(causeOf(record, attempt), async () => {
          table.put(record);
          if (!this.hasProgress && begun() > 0) {
            await runtime.flush();
            // Paused or ended meanwhile: it has not begun.
            if (this.abandoned || this.host.isPaused()) return undefined;
          }
          const run = this.functions.run(nameOf(record), config.timeoutMs, () => f(ctx));
          return toResult(record, await run);
        });
      } catch (error) {
        thrown = { error };
      }
      this.active--;
      if (this.abandoned || (thrown !== undefined && this.lost(thrown.error))) return;
      if (thrown === undefined && result !== undefined) return this.settle(record, { result });
      if (thrown === undefined) {
        record.attempts--;
        continue;
      }
      const failures = record.failures + 1;
      if (failures > config.limit || isFinalForAll(thrown.error))
        return this.settle(record, { error: describeThrown(thrown.error) });
      record.failures = failures;
      record.dueMs = runtime.time.nowMs() + retryDelayMs(config, failures);
      runtime.log.warn("a workflow's step failed; it is tried again", {
        step: record.key,
        attempt,
        error: describeThrown(thrown.error).message,
      });
    }
  }

  private retryPause(record: StepRecord, isNew: boolean): Promise<void> {
    return new Promise((resolve) => {
      this.addWait(record, isNew, () => {
        record.dueMs = null;
        resolve();
      });
    });
  }

  private addWait(
    record: StepRecord,
    isNew: boolean,
    onDue: () => void,
    question?: Question,
  ): void {
    const { table, wakes, events } = this.host;
    const waiting = { record, onDue };
    this.waiting.set(record.key, waiting);
    if (isNew)
      this.write(record, () => {
        table.put(record);
        wakes.add(record.key, record.dueMs!);
        if (question !== undefined) events.ask(record, question);
      });
    this.checkWait(waiting);
    this.look();
  }

  private unpaused(record: StepRecord): Promise<void> {
    this.write(record, () => this.host.table.put(record));
    return new Promise((resolve) => {
      this.parked.push(resolve);
      this.look();
    });
  }

  /** In a turn of its own: the running one may be durable, whose writes wait for its end. */
  private write(record: StepRecord, f: () => void): void {
    const { runtime } = this.host;
    runtime
      .asTurn(causeOf(record), async () => f())
      .catch((error: unknown) => this.unrecorded(error));
  }

  /** Rule 1. `also` is written in the same commit. */
  private async settle(record: StepRecord, outcome: Outcome, also?: () => void): Promise<void> {
    const { runtime, table, wakes, events } = this.host;
    this.waiting.delete(record.key);
    try {
      // The agent may be lost since the step's function began.
      this.begins();
      await runtime.asTurn(causeOf(record), async () => {
        if (record.dueMs !== null) wakes.cancel(record.key);
        record.endedAt = this.order.addEnded(record.key);
        record.dueMs = null;
        record.result = outcome.result ?? null;
        record.error = outcome.error ?? null;
        table.put(record);
        events.settled(record);
        also?.();
        await runtime.flush();
      });
    } catch (error) {
      return this.unrecorded(error);
    } finally {
      this.active--;
    }
    if (this.abandoned) return;
    this.hasProgress = true;
    this.order.addReady(record.key, () => this.settlers.get(record.key)?.(record));
    this.look();
  }

  private checkWait({ record, onDue }: Waiting): void {
    const { runtime, events, wakes, isPaused } = this.host;
    if (isPaused() || this.abandoned || !this.waiting.has(record.key)) return;
    if (record.eventType !== null) {
      const event = runtime.inBackground(() => events.take(record));
      if (event !== undefined) return void this.settle(record, event);
    }
    if (record.dueMs! > runtime.time.nowMs()) {
      if (!wakes.has(record.key)) this.write(record, () => wakes.add(record.key, record.dueMs!));
      return; // rule 6
    }
    this.waiting.delete(record.key);
    onDue();
  }

  private begins(): void {
    if (this.active++ === 0) this.host.ensureDriven();
  }

  private get onlyWaits(): boolean {
    return this.active === 0 && this.waiting.size + this.parked.length > 0;
  }

  private look(): void {
    if (!this.over && !this.onlyWaits) return;
    const waiting = this.onQuiet;
    this.onQuiet = [];
    for (const resolve of waiting) resolve();
  }

  /** Nobody waits for it. What is not recorded begins again when the agent does. */
  private unrecorded(error: unknown): void {
    if (this.lost(error)) return;
    this.abandon();
    this.host.runtime.abort(`a step can't be recorded: ${String(error)}`);
  }

  /** The agent is gone: another host, or a fresh start, goes on from the record. */
  private lost(error: unknown): boolean {
    if (!(error instanceof AgentDiscarded || error instanceof AgentDestroyed)) return false;
    this.abandon();
    return true;
  }
}
