/**
 * `this.approval` of an agent: a fiber asks people, and waits in memory for an answer. The question
 * is a row of the agent's, so that it and its answer outlive the host (`Approvals`).
 *
 * 1. Within a fiber a name is one question. If it is asked again, also by the fiber that continues
 *    after a host died, it keeps its answer and its deadline.
 * 2. People are notified once the question is stored, and again if the host ends before that is
 *    recorded.
 * 3. When a fiber has ended, for whatever reason, its questions are withdrawn.
 */
import type { AgentWork } from "../turn/AgentWork.ts";
import { durationMs, WAIT_MS_MAX } from "../time/durationMs.ts";
import { wallTimer } from "../time/WallTimers.ts";
import type { ApprovalGrant, ApprovalQuestion } from "../approval/Approval.ts";
import {
  ApprovalClosed,
  ApprovalNotDurable,
  ApprovalRejected,
  ApprovalTimedOut,
} from "../approval/approvalErrors.ts";
import type { ApprovalRow, Approvals } from "../approval/Approvals.ts";
import { checkQuestion } from "../approval/checkAnswer.ts";
import { fiberOf, type KeptOfFibers } from "./Fiber.ts";

/** The default for a workflow that waits for an event, too. */
const TIMEOUT_DEFAULT = "24 hours";
/** A loop that asks would fill the table, and somebody's mailbox. */
const WAITING_MAX = 100;

type FiberApprovalsAgent = Pick<
  AgentWork,
  "time" | "currentCause" | "abandoned" | "leaving" | "flush" | "afterCommit"
>;

export class FiberApprovals implements KeptOfFibers {
  constructor(
    private readonly agent: FiberApprovalsAgent,
    private readonly approvals: Approvals,
  ) {}

  /** See `Agent.approval`. */
  async ask<Metadata>(name: string, question: ApprovalQuestion): Promise<ApprovalGrant<Metadata>> {
    const { approvals } = this;
    const cause = this.agent.currentCause();
    const fiber = fiberOf(cause);
    if (fiber === undefined)
      throw new ApprovalNotDurable({ approval: name, turn: cause?.kind ?? "background" });
    checkQuestion(name, question);
    const key = `${startOfKeys(fiber)}${name}`;
    const before = approvals.byKey(key);
    if (before === undefined) this.begin(key, name, question);
    else if (before.prompt !== (question.prompt ?? null))
      throw new TypeError(
        `approval "${name}": this fiber has already asked it with another prompt. Use a separate name for each question`,
      );
    await this.agent.flush();
    await this.notify(key, question);
    const row = await this.decided(key);
    const { status, by, reason, metadata, decidedAt, expiresAt } = row;
    if (status === "approved")
      return {
        by,
        at: decidedAt!,
        ...(reason === null ? {} : { reason }),
        ...(metadata === undefined ? {} : { metadata: metadata as Metadata }),
      };
    if (status === "rejected")
      throw new ApprovalRejected({ approval: name, by, reason: reason ?? undefined });
    if (status === "withdrawn") throw new ApprovalClosed({ approval: name, status, by });
    approvals.settle(key, "expired");
    throw ApprovalTimedOut.of(name, expiresAt);
  }

  /** Rule 1. */
  moved(from: string, to: string): void {
    this.approvals.move(startOfKeys(from), startOfKeys(to));
  }

  /** Rule 3. */
  ended(fiber: string): void {
    this.approvals.withdraw(startOfKeys(fiber));
  }

  private begin(key: string, name: string, { prompt, timeout }: ApprovalQuestion): void {
    const ms = durationMs(timeout ?? TIMEOUT_DEFAULT, `approval "${name}": timeout`);
    if (ms > WAIT_MS_MAX) throw new RangeError(`approval "${name}" waits longer than a year`);
    if (this.approvals.list({ status: "waiting" }).length >= WAITING_MAX)
      throw new RangeError(
        `approval "${name}" was not requested: ${WAITING_MAX} approvals of this agent are already waiting`,
      );
    this.approvals.ask({ key, name, prompt, expiresAt: this.agent.time.nowMs() + ms });
  }

  /** Rule 2. */
  private async notify(key: string, { notify }: ApprovalQuestion): Promise<void> {
    const row = this.approvals.byKey(key);
    if (notify === undefined || row?.status !== "waiting" || row.notified) return;
    await notify(this.approvals.asked(row.id));
    this.approvals.notified(row);
  }

  /** Resolves once the approval is over, or decided and stored. Rejects when the fiber must end. */
  private decided(key: string): Promise<ApprovalRow> {
    const { agent, approvals } = this;
    const { abandoned, leaving, time } = agent;
    return new Promise((resolve, reject) => {
      let cancel = (): void => undefined;
      const offs: Array<() => void> = [() => cancel()];
      const over = (settle: () => void): void => {
        for (const off of offs) off();
        settle();
      };
      const look = (): void => {
        const row = approvals.byKey(key);
        if (row === undefined)
          over(() =>
            reject(
              new Error(
                `the question of the approval ${key} was deleted from the agent's database`,
              ),
            ),
          );
        else if (row.status !== "waiting") over(() => resolve(row));
        else {
          cancel();
          cancel = wallTimer(time, Math.max(row.expiresAt, time.nowMs() + 1), look);
        }
      };
      offs.push(
        approvals.onDecided(() => agent.afterCommit(look)),
        abandoned.onFire(() => over(() => reject(abandoned.reason))),
        leaving.onFire(() => over(() => reject(leaving.reason))),
      );
      if (!abandoned.fired && !leaving.fired) look();
    });
  }
}

/** The start of the keys of one fiber's questions. Quoted, because an id may be any text. */
export const startOfKeys = (fiber: string): string => `${JSON.stringify(fiber)} `;
