/**
 * The events for which a workflow instance's steps wait: events of a type, and answers of people.
 * `Execution` takes them for its steps; `WorkflowRun` passes on arriving ones.
 *
 * 1. An answer belongs to the question that waits for it. Any other event is kept until a step asks
 *    for its type.
 * 2. An answer to a named question that is not open answers none: not the next question of that
 *    name either. It is kept as an event, because the type may be an app's own. One to
 *    `waitForApproval`, which has no name, is kept like any event.
 * 3. However a step's wait ends, its question ends with it, in the same commit.
 */
import type { Approvals } from "../approval/Approvals.ts";
import type { Answer } from "../approval/checkAnswer.ts";
import type { LogShape } from "../telemetry/Log.ts";
import type { RunTable, StepRecord } from "./RunTable.ts";

/** Prefix of an approval's name in the type of the events that answer it. */
const NAMED = "approval ";
export const answerType = (approval: string): string => `${NAMED}${approval}`;

/** The question that a step asks people. */
export interface Question {
  readonly name: string;
  readonly prompt?: string | undefined;
}

export class AwaitedEvents {
  constructor(
    private readonly table: RunTable,
    private readonly approvals: Approvals,
    private readonly log: LogShape,
  ) {}

  /** Part of the commit in which the step begins to wait. */
  ask({ key, dueMs, eventType }: StepRecord, question: Question): void {
    const { name, prompt } = question;
    this.approvals.ask({ key, name, prompt, expiresAt: dueMs!, eventType: eventType! });
  }

  arrive(type: string, payload: unknown, timeMs: number): void {
    const waiting = this.approvals.waitingFor(type);
    if (waiting !== undefined) return this.approvals.answer(waiting, answerOf(payload));
    this.table.addEvent(type, payload, timeMs);
    if (type.startsWith(NAMED))
      this.log.warn("an answer has no effect, because no approval waits for it", {
        approval: type.slice(NAMED.length),
      });
  }

  /** The step's result; undefined while it waits. */
  take(record: StepRecord): { readonly result: string } | undefined {
    const type = record.eventType!;
    const answered = this.answer(record);
    if (answered !== undefined) return answered;
    const isNamed = type.startsWith(NAMED) && this.approvals.byKey(record.key) !== undefined;
    if (isNamed) return undefined; // rule 2
    const event = this.table.takeEvent(type);
    return event && toResult(type, event.payload, event.timeMs);
  }

  /** Part of the commit in which its wait ends (rule 3). */
  settled({ key, eventType, result }: StepRecord): void {
    if (eventType === null) return;
    const { payload } = (result === null ? {} : JSON.parse(result)) as { payload?: unknown };
    this.approvals.settle(key, result === null ? "expired" : answerOf(payload));
  }

  /** The run has ended, or restarts: its questions end. */
  end(): void {
    this.approvals.withdraw();
  }

  /** The answer to its question, if there is one. */
  private answer({ key, eventType }: StepRecord): { readonly result: string } | undefined {
    const row = this.approvals.byKey(key);
    if (row?.status !== "approved" && row?.status !== "rejected") return undefined;
    const { status, by, decidedAt, reason, metadata } = row;
    const payload = {
      approved: status === "approved",
      ...(by === null ? {} : { by }),
      ...(reason === null ? {} : { reason }),
      metadata,
    };
    return toResult(eventType!, payload, decidedAt!);
  }
}

const toResult = (type: string, payload: unknown, timeMs: number): { readonly result: string } => ({
  result: JSON.stringify({ type, payload, timeMs }),
});

/** Anything but an approval counts as a rejection, as for `waitForApproval`. */
function answerOf(payload: unknown): Answer {
  const { approved, by, reason, metadata } = (payload ?? {}) as Readonly<Record<string, unknown>>;
  return {
    approved: approved === true,
    by: typeof by === "string" ? by : null,
    reason: typeof reason === "string" ? reason : undefined,
    metadata,
  };
}
