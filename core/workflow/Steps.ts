/**
 * The `step` of `run`: checks arguments, and passes each call to its `Execution`. Each report to
 * the agent is a separate step, recorded and sent in one commit by `report`.
 */
import type { ApprovalGrant, ApprovalQuestion, AskedApproval } from "../approval/Approval.ts";
import { ApprovalRejected, ApprovalTimedOut } from "../approval/approvalErrors.ts";
import { checkQuestion } from "../approval/checkAnswer.ts";
import { checkOptions } from "../errors/checkOptions.ts";
import { toJson } from "../journal/jsonText.ts";
import { answerType, type Question } from "./AwaitedEvents.ts";
import { describeThrown, WorkflowTimeoutError } from "./errors.ts";
import type { Execution } from "./Execution.ts";
import type { StepRecord } from "./RunTable.ts";
import { checkSize } from "../step/stepResult.ts";
import { durationMs, WAIT_MS_MAX } from "../time/durationMs.ts";
import { resolveConfig, type StepConfig, type WorkflowDuration } from "./stepConfig.ts";
import { resolveUndo } from "./resolveUndo.ts";
import type {
  StepFunction,
  StepUndoOptions,
  WorkflowStep,
  WorkflowStepEvent,
} from "./WorkflowStep.ts";
import { messageOf } from "../errors/thrown.ts";
import { defined } from "../collections/defined.ts";

/** A step's message to the agent. */
export type Report =
  | { readonly kind: "complete" | "error" | "event"; readonly value: unknown }
  | {
      readonly kind: "state";
      readonly change: "set" | "merge" | "reset";
      readonly value?: unknown;
    };

interface StepsHost {
  readonly nowMs: () => number;
  /** Durable with the current commit. The record's key makes it apply once. */
  readonly report: (record: StepRecord, report: Report) => void;
  /** The last stored approval of that name. */
  readonly asked: (name: string) => Promise<AskedApproval>;
}

/** The payload of an answer. */
interface Decided<Metadata> {
  readonly approved: boolean;
  readonly by?: string;
  readonly reason?: string;
  readonly metadata?: Metadata;
}

/** As on the reference's platform. */
const EVENT_TIMEOUT_DEFAULT = "24 hours";
const WAIT_OPTIONS: ReadonlySet<string> = new Set(["type", "timeout"]);
/** The name of the steps that report an error. */
export const REPORT_ERROR = "reportError";

export class Steps implements WorkflowStep {
  readonly #execution: Execution;
  readonly #host: StepsHost;

  constructor(execution: Execution, host: StepsHost) {
    this.#execution = execution;
    this.#host = host;
  }

  async do<T>(
    name: string,
    second: StepConfig | StepFunction<T>,
    ...more: ReadonlyArray<unknown>
  ): Promise<T> {
    const [given, f, undoing] = typeof second === "function" ? [{}, second, ...more] : [second, ...more]; // prettier-ignore
    if (typeof f !== "function")
      throw new TypeError(
        `step.do("${name}", …): the function is missing: step.do(name, config?, f, { undo }?)`,
      );
    const undo = resolveUndo(name, given, undoing as StepUndoOptions | undefined);
    const config = resolveConfig(name, given);
    const execution = this.#execution;
    const begin = (record: StepRecord): void =>
      void execution.runFunction(record, config, f as StepFunction<T>);
    return execution.step("do", name, begin, { undo }) as Promise<T>;
  }

  async sleep(name: string, duration: WorkflowDuration): Promise<void> {
    const ms = durationMs(duration, `step "${name}": the duration`);
    return this.#sleepUntil(name, this.#host.nowMs() + ms);
  }

  async sleepUntil(name: string, time: Date | number): Promise<void> {
    const dueMs = time instanceof Date ? time.getTime() : time;
    if (typeof dueMs !== "number" || Number.isNaN(dueMs))
      throw new TypeError(`step.sleepUntil("${name}", …): the second argument must be a Date`);
    return this.#sleepUntil(name, dueMs);
  }

  async waitForEvent<Payload = unknown>(
    name: string,
    options: { readonly type: string; readonly timeout?: WorkflowDuration },
  ): Promise<WorkflowStepEvent<Payload>> {
    checkOptions(`step.waitForEvent("${name}", …)`, options, WAIT_OPTIONS);
    return this.#waitForEvent(name, options);
  }

  /** As `waitForEvent`, for people's answer, which is an event of that type. */
  waitForAnswer<Payload>(
    name: string,
    options: { readonly type: string; readonly timeout?: WorkflowDuration },
  ): Promise<WorkflowStepEvent<Payload>> {
    return this.#waitForEvent(name, options, { question: { name } });
  }

  /** See `AgentWorkflow.approval`. */
  async approval<Metadata>(
    name: string,
    question: ApprovalQuestion,
  ): Promise<ApprovalGrant<Metadata>> {
    checkQuestion(name, question);
    const { prompt, timeout, notify } = question;
    const answered = this.#waitForEvent<Decided<Metadata>>(
      name,
      { type: answerType(name), ...(timeout === undefined ? {} : { timeout }) },
      { question: { name, prompt }, late: (dueMs) => ApprovalTimedOut.of(name, dueMs) },
    );
    const told =
      notify === undefined
        ? undefined
        : this.do(`${name}: notify`, async () => void (await notify(await this.#host.asked(name))));
    const [{ payload, timestamp }] = await Promise.all([answered, told]);
    const { approved, by = null, reason, metadata } = payload;
    if (!approved) throw new ApprovalRejected({ approval: name, by, reason });
    return {
      by,
      at: timestamp.getTime(),
      ...defined({ reason, metadata }),
    };
  }

  async #waitForEvent<Payload>(
    name: string,
    {
      type,
      timeout = EVENT_TIMEOUT_DEFAULT,
    }: { readonly type: string; readonly timeout?: WorkflowDuration },
    { question, late }: { question?: Question; late?: (dueMs: number) => Error } = {},
  ): Promise<WorkflowStepEvent<Payload>> {
    if (typeof type !== "string" || type === "")
      throw new TypeError(`step.waitForEvent("${name}", …): the type of the event is missing`);
    const ms = durationMs(timeout, `step "${name}": timeout`);
    const tooLong = spanError(name, ms);
    if (tooLong !== undefined) throw tooLong;
    const none = new WorkflowTimeoutError(
      `step "${name}" waited ${timeout}${typeof timeout === "number" ? " ms" : ""} for an event of type "${type}", but none arrived`,
    );
    const begin = (record: StepRecord, isNew: boolean): void => {
      const dueMs = record.dueMs!;
      const onTimeout = () => ({ error: describeThrown(late?.(dueMs) ?? none) });
      this.#execution.wait(record, isNew, { onTimeout, question });
    };
    const fresh = { dueMs: this.#host.nowMs() + ms, eventType: type };
    const event = await this.#execution.step("waitForEvent", name, begin, fresh);
    const { payload, timeMs } = event as { readonly payload: Payload; readonly timeMs: number };
    return { type, payload, timestamp: new Date(timeMs) };
  }

  reportComplete(result?: unknown): Promise<void> {
    return this.#report("reportComplete", { kind: "complete", value: result });
  }
  reportError(error: unknown): Promise<void> {
    return this.#report(REPORT_ERROR, { kind: "error", value: messageOf(error) });
  }
  sendEvent(event: unknown): Promise<void> {
    return this.#report("sendEvent", { kind: "event", value: event });
  }
  updateAgentState(state: unknown): Promise<void> {
    return this.#report("updateAgentState", { kind: "state", change: "set", value: state });
  }
  mergeAgentState(partial: unknown): Promise<void> {
    return this.#report("mergeAgentState", { kind: "state", change: "merge", value: partial });
  }
  resetAgentState(): Promise<void> {
    return this.#report("resetAgentState", { kind: "state", change: "reset" });
  }

  async #sleepUntil(name: string, dueMs: number): Promise<void> {
    const begin = (record: StepRecord, isNew: boolean): void => {
      // Recorded, because a later replay would find the time nearer.
      const tooLong = isNew ? spanError(name, dueMs - this.#host.nowMs()) : undefined;
      if (tooLong === undefined) this.#execution.wait(record, isNew);
      else this.#execution.fail(record, tooLong);
    };
    await this.#execution.step("sleep", name, begin, { dueMs });
  }

  async #report(name: string, report: Report): Promise<void> {
    const what = `step.${name}: the reported value`;
    const text = toJson(report.value, what);
    if (text !== null) checkSize(text, what);
    const send = (record: StepRecord): void => this.#host.report(record, report);
    await this.#execution.step("report", name, (record) => this.#execution.tell(record, send));
  }
}

const spanError = (name: string, ms: number): RangeError | undefined =>
  ms > WAIT_MS_MAX ? new RangeError(`step "${name}" waits longer than a year`) : undefined;
