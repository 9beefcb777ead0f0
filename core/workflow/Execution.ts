/**
 * One `run()` of a workflow in memory: returns recorded results to its steps, or runs them.
 * `WorkflowRun` makes it; it is dropped when the agent leaves memory, and the next one replays the
 * record.
 *
 * 1. A step's result is stored before `run` receives it. Results have one order (`StepOrder`), the
 *    same in every replay.
 * 2. `quiet` resolves when only waits are left. Each has its own schedule, so the agent may leave
 *    memory.
 * 3. Once abandoned (terminated, restarted, discarded) it is inert: its promises never settle.
 * 4. When `run` has finally failed, its steps are undone (`undoSteps`): no other step begins, and a
 *    failing one is not retried. Each undo is then a step, with pauses and deaths like any other.
 */
import { UNDOING } from "../journal/AgentImage.ts";
import type { Question } from "./AwaitedEvents.ts";
import { AgentDestroyed, AgentDiscarded } from "../errors/errors.ts";
import { describeThrown, reviveError, WorkflowCodeChanged, type StoredError } from "./errors.ts";
import { ReplayWatch } from "./ReplayWatch.ts";
import type { StepKind, StepRecord } from "./RunTable.ts";
import type { ResolvedConfig } from "./stepConfig.ts";
import { checkStepName, REFUSAL_MS, REFUSALS_AT_ONCE } from "../step/stepKey.ts";
import { undoKey, undoSteps } from "../step/undoSteps.ts";
import { StepAttempts, type AttemptsHost } from "./StepAttempts.ts";
import { StepOrder } from "./StepOrder.ts";
import { StepWaits, type WaitsHost } from "./StepWaits.ts";
import {
  causeOf,
  contextOf,
  giverOf,
  nameOf,
  newStep,
  resultOf,
  type Outcome,
} from "./stepFacts.ts";
import { Undos, type ResolvedUndo, type Undo } from "./Undos.ts";
import type { StepContext } from "./WorkflowStep.ts";

/** Promise jobs in which `run` may begin its next step, before it counts as waiting. */
const HOPS = 32;

interface ExecutionHost extends WaitsHost, AttemptsHost {
  /** Called when work begins while no drive runs. */
  readonly ensureDriven: () => void;
  readonly onCodeChanged: (error: WorkflowCodeChanged) => void;
}

/** The initial fields of a wait's record. */
type Fresh = Partial<Pick<StepRecord, "dueMs" | "eventType">>;
type Settle = (record: StepRecord) => void;

export class Execution {
  readonly undos: Undos;
  private order: StepOrder;
  readonly waits: StepWaits;
  private readonly attempts: StepAttempts;
  private readonly replay: ReplayWatch;
  private positions: number;
  /** Steps that run or are being stored. */
  private active = 0;
  private readonly settlers = new Map<string, Settle>(); // by the step's key
  private over = false;
  private abandoned = false;
  /** A step has ended in this life, and its end is stored. */
  private hasProgress = false;
  private onQuiet: Array<() => void> = [];
  /** Steps that were refused because the run has failed. */
  private refusals = 0;
  private giveUp = (): void => undefined;
  /** Resolves when code that has failed begins steps again and again: it is not waited for. */
  readonly givenUp = new Promise<undefined>((resolve) => {
    this.giveUp = () => resolve(undefined);
  });

  constructor(private readonly host: ExecutionHost) {
    this.replay = new ReplayWatch(host.runtime.time, (error) => {
      if (this.undos.failure === undefined) host.onCodeChanged(error);
      else this.order.loosen(); // as `ask` does
    });
    const owner = {
      isAbandoned: () => this.abandoned,
      look: () => this.look(),
      settle: (record: StepRecord, outcome: Outcome) => this.settle(record, outcome),
    };
    this.waits = new StepWaits(host, { ...owner, unrecorded: (error) => this.unrecorded(error) });
    this.attempts = new StepAttempts(host, {
      ...owner,
      waits: this.waits,
      hasProgress: () => this.hasProgress,
      isFailing: ({ kind }) => kind !== "undo" && (this.over || this.undos.failure !== undefined),
      begins: () => this.begins(),
      ended: () => void this.active--,
      lost: (error) => this.lost(error),
    });
    const records = host.table.steps();
    this.positions = records.length;
    this.undos = new Undos(records);
    this.order = new StepOrder(records.filter(({ kind }) => kind !== "undo"));
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

  /** Rule 3. */
  abandon(): void {
    this.abandoned = true;
    this.attempts.abandon();
    this.waits.clear();
    this.finish();
  }

  /** `run` has ended. Throws `WorkflowCodeChanged` if the record has further steps. */
  checkEnd(): void {
    this.order.end();
  }

  /**
   * `run` has ended with this error. Undoes its steps (rule 4), and resolves to the error with the
   * outcome of the undos. Never settles once abandoned. Rejects with `AgentDiscarded`.
   */
  async undo(thrown: unknown): Promise<StoredError> {
    const { undos } = this;
    const isBegun = undos.failure !== undefined;
    const failure = undos.failure ?? describeThrown(thrown);
    if (!isBegun && (undos.isEmpty || thrown instanceof WorkflowCodeChanged)) return failure;
    undos.failure = failure;
    while (this.active > 0) await new Promise<void>((resolve) => this.onQuiet.push(resolve));
    this.waits.clear();
    const lost = undos.left(this.order.left);
    this.replay.stop();
    this.order = new StepOrder([]);
    const begins = JSON.stringify(failure);
    const mark = (record: StepRecord): void =>
      void this.settle(record, { result: begins }, () => this.host.wakes.cancel());
    if (!isBegun) await this.undoing(UNDOING, mark);
    const run = ({ record, undo }: Undo): Promise<unknown> =>
      this.undoing(undoKey(record.key), (own) => {
        const ctx = contextOf(this.host.keys, record, record.attempts);
        const of = { ctx, output: resultOf(record), error: reviveError(failure) };
        const f = async (context: StepContext): Promise<void> => void (await undo.run(of, context));
        void this.runFunction(own, undo.config, f);
      });
    const due = undos.due().map((of) => ({ name: nameOf(of.record), run: () => run(of) }));
    return { ...failure, message: await undoSteps(failure.message, due, lost) };
  }

  /** The recorded end of an undo, or its end once `begin` has run it now. */
  private undoing(key: string, begin: (record: StepRecord) => void): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const record = this.undos.recordOf(key) ?? this.newRecord(key, "undo");
      const give = giverOf(resolve, reject);
      if (record.endedAt !== null) return give(record);
      this.settlers.set(key, give);
      begin(record);
    });
  }

  /** Ends the run: nothing is left to do. */
  finish(): void {
    this.over = true;
    this.replay.stop();
    this.look();
  }

  /** Resolves when it has ended, or only waits (rule 2). */
  async quiet(): Promise<void> {
    for (;;) {
      for (let hop = 0; hop < HOPS; hop++) await Promise.resolve();
      if (this.over || this.onlyWaits) return;
      await new Promise<void>((resolve) => this.onQuiet.push(resolve));
    }
  }

  /**
   * One step: recorded, or begun now by `begin`, which ends it by `settle`. Never settles once
   * abandoned. Rejects with a `TypeError` for an invalid name, and with the failure (rule 4).
   */
  step(
    kind: StepKind,
    name: string,
    begin: (record: StepRecord, isNew: boolean) => void,
    { undo, ...fresh }: Fresh & { readonly undo?: ResolvedUndo | undefined } = {},
  ): Promise<unknown> {
    checkStepName(name, `step.${kind}`);
    return new Promise((resolve, reject) => {
      if (this.over) return;
      // SQLite stores an unpaired surrogate, as of a text that is cut in an emoji, as U+FFFD.
      const key = this.order.keyOf(name.toWellFormed());
      try {
        const recorded = this.ask(key, kind);
        const give = giverOf(resolve, reject);
        if (recorded !== undefined && undo !== undefined) this.undos.add(recorded, undo);
        if (recorded !== undefined && recorded.endedAt !== null) {
          this.order.addReady(key, () => give(recorded));
          return;
        }
        const { failure } = this.undos;
        if (failure !== undefined) {
          this.order.giveReady();
          // Code may repeat the step in a loop: that does not hold the thread, and has an end.
          if (++this.refusals <= REFUSALS_AT_ONCE) throw reviveError(failure);
          this.giveUp();
          this.host.runtime.time.after(REFUSAL_MS, () => {
            if (!this.abandoned) reject(reviveError(failure));
          });
          return;
        }
        const record = recorded ?? this.newRecord(key, kind, fresh);
        if (recorded === undefined && undo !== undefined) this.undos.add(record, undo);
        this.settlers.set(key, give);
        begin(record, recorded === undefined);
        this.order.giveReady();
      } catch (error) {
        if (error instanceof WorkflowCodeChanged) this.host.onCodeChanged(error);
        else if (!this.lost(error)) reject(error as Error);
      } finally {
        this.replay.look(this.order);
      }
    });
  }

  /** A function's attempts, from where the record left off. */
  runFunction(
    record: StepRecord,
    config: ResolvedConfig,
    f: (ctx: StepContext) => unknown,
  ): Promise<void> {
    return this.attempts.run(record, config, f).catch((error: unknown) => this.unrecorded(error));
  }

  /** A wait, until its time, an event of its type, or an answer to its question. */
  wait(
    record: StepRecord,
    isNew: boolean,
    { onTimeout, question }: { onTimeout?: () => Outcome; question?: Question | undefined } = {},
  ): void {
    this.waits.add(record, isNew, () => void this.settle(record, onTimeout?.() ?? {}), question);
  }

  /** Ends a step whose arguments are refused by what may differ in a replay. */
  fail(record: StepRecord, error: Error): void {
    void this.settle(record, { error: describeThrown(error) });
  }

  /**
   * Ends a step that only reports: its end and what `send` writes are one commit. Waits while
   * paused, as a step does before it begins.
   */
  tell(record: StepRecord, send: (record: StepRecord) => void): void {
    const tell = (): void => void this.settle(record, {}, () => send(record));
    if (this.host.isPaused()) void this.waits.unpaused(record).then(tell);
    else tell();
  }

  /** Code that changed after the failure only determines how steps are undone (rule 4). */
  private ask(key: string, kind: StepKind): StepRecord | undefined {
    try {
      return this.order.ask(key, kind);
    } catch (error) {
      if (this.undos.failure === undefined || !(error instanceof WorkflowCodeChanged)) throw error;
      this.order.loosen();
      return this.order.ask(key, kind);
    }
  }

  private newRecord(key: string, kind: StepKind, fresh: Fresh = {}): StepRecord {
    const place = { position: ++this.positions, after: this.order.given };
    return { ...newStep(key, kind), ...place, ...fresh };
  }

  /** Rule 1. `also` is written in the same commit. */
  private async settle(record: StepRecord, outcome: Outcome, also?: () => void): Promise<void> {
    const { runtime, wakes, events } = this.host;
    this.waits.remove(record.key);
    try {
      // The agent may have been lost since the step's function began.
      this.begins();
      await runtime.asTurn(causeOf(record), async () => {
        if (record.dueMs !== null) wakes.cancel(record.key);
        record.endedAt = this.order.addEnded(record.key);
        record.dueMs = null;
        record.result = outcome.result ?? null;
        record.error = outcome.error ?? null;
        this.put(record, also);
        events.settled(record);
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
    this.replay.look(this.order);
    this.look();
  }

  /** A result or a report that does not fit into the database fails its step. */
  private put(record: StepRecord, also?: () => void): void {
    const { table } = this.host;
    try {
      table.put(record);
      also?.();
    } catch (error) {
      if (record.result === null && also === undefined) throw error;
      record.result = null;
      record.error = describeThrown(error);
      table.put(record);
    }
  }

  private begins(): void {
    if (this.active++ === 0) this.host.ensureDriven();
  }

  private get onlyWaits(): boolean {
    return this.active === 0 && !this.waits.isEmpty;
  }

  /** Makes `quiet` and `undo` look again. */
  private look(): void {
    if (!this.over && this.active > 0) return;
    const waiting = this.onQuiet;
    this.onQuiet = [];
    for (const resolve of waiting) resolve();
  }

  /** A write that nobody awaits failed. Unrecorded steps begin again with the agent. */
  private unrecorded(error: unknown): void {
    if (this.lost(error)) return;
    this.abandon();
    this.host.runtime.abort(`a step can't be recorded: ${String(error)}`);
  }

  /** The agent is discarded: another host, or a restart, continues from the record. */
  private lost(error: unknown): boolean {
    if (!(error instanceof AgentDiscarded || error instanceof AgentDestroyed)) return false;
    this.abandon();
    return true;
  }
}
