/**
 * The port by which a host answers questions over all agents (`askHosts`), and the answers from a
 * view that its holder keeps for them.
 *
 * 1. Questions that wait are answered in rounds, one after the other, from a view that was brought
 *    up to date after they were asked (`View`, 3): what was stored before is in their answers.
 * 2. An agent that was erased is out of the view and of its copies, bytes included, when `erased`
 *    resolves.
 * 3. The class of the binding that is asked has a table, even if it has no agents.
 * 4. An answer is encoded where the view is read, so that a large one does not block the thread of
 *    the host's agents.
 * 5. A statement holds the view for `QUICK_SECONDS` at most. One that takes longer is stopped, and
 *    runs again on a copy of the view (`RunApart`), one at a time for each asker.
 * 6. A round has all questions of code that wait, and one of operators. A question of code waits
 *    for one of an operator at most, and never for one that runs on a copy.
 */
import type { AgentsAnswer, AgentsQuestion } from "../../schemas/AgentsQuestion.ts";
import type { AgentId } from "../../schemas/Address.ts";
import type { WrittenEvent } from "./OwnEvents.ts";
import { QUESTION_ROWS_MAX, QUESTION_SECONDS_MAX } from "./askHosts.ts";
import { askView, plainValue, QueryRefused, StatementStopped, tooLarge } from "./askView.ts";
import type { View } from "./View.ts";

/** The JSON of an `AgentsAnswer`, whose memory is the caller's (4). */
export type AnswerBytes = Uint8Array<ArrayBuffer>;

export interface QueriesShape {
  /** Rejects with `QueryRefused`, and with what the view's sources failed with. */
  readonly answer: (question: AgentsQuestion) => Promise<AnswerBytes>;
  /** Rule 2. */
  readonly erased: () => Promise<void>;
  /** Called with each event that the host has stored. Absent: the view reads from the broker. */
  readonly stored?: (id: AgentId, seq: number, event: WrittenEvent) => void;
}

/** Answers from a copy of the view's file, which exists when it returns. Rejects as `answer`. */
export type RunApart = (question: AgentsQuestion) => Promise<AnswerBytes>;

/** The host and the caller hold the whole answer in memory. */
const ROWS_DEFAULT = 10_000;
/** Bytes of JSON: two copies of it are in memory at each of two processes. */
const ANSWER_BYTES_MAX = 16 * 2 ** 20;
/** A filter over 100,000 agents takes 0.14 seconds. Callers hardly notice a wait of so long. */
const QUICK_SECONDS = 0.2;
/** For each asker. A question takes some milliseconds. More wait only where some take seconds. */
const WAITING_MAX = 64;

interface Waiting {
  readonly read: () => unknown;
  readonly resolve: (found: never) => void;
  readonly reject: (error: unknown) => void;
}

/** Code or operators: what waits for the view, and what runs apart from it. */
class Asker {
  readonly waiting: Waiting[] = [];
  /** Settles when all slow statements so far have ended. Never rejects. */
  slow: Promise<unknown> = Promise.resolve();
  /** Settles when the copy that was made last is removed. Never rejects. */
  copy: Promise<unknown> = Promise.resolve();
  private readonly counts = { quick: 0, slow: 0 };

  /** Refuses what would be one too many. */
  async counted<A>(kind: "quick" | "slow", act: () => Promise<A>): Promise<A> {
    if (this.counts[kind] >= WAITING_MAX)
      throw new QueryRefused(`More than ${WAITING_MAX} queries are waiting: try again later`);
    this.counts[kind]++;
    try {
      return await act();
    } finally {
      this.counts[kind]--;
    }
  }
}

export class Queries implements QueriesShape {
  private readonly runApart: RunApart | undefined;
  private readonly code = new Asker();
  private readonly operators = new Asker();
  private isAnswering = false;

  /** Without `runApart` each statement runs in the view to its end. */
  constructor(
    private readonly view: View,
    private readonly catchUp: () => Promise<void>,
    runApart?: RunApart,
  ) {
    this.runApart = runApart;
  }

  async answer(question: AgentsQuestion): Promise<AnswerBytes> {
    const asker = question.className === undefined ? this.operators : this.code;
    const { runApart } = this;
    const seconds = runApart === undefined ? question.seconds : Math.min(question.seconds, QUICK_SECONDS); // prettier-ignore
    try {
      return await asker.counted("quick", () =>
        this.inTurn(asker, () => answerFrom(this.view, { ...question, seconds })),
      );
    } catch (error) {
      const isSlow = error instanceof StatementStopped && seconds < question.seconds;
      if (!isSlow || runApart === undefined) throw error;
    }
    return asker.counted("slow", () => this.answerApart(asker, runApart, question)); // Rule 5.
  }

  async erased(): Promise<void> {
    await this.inTurn(this.code, () => this.view.save());
    // Copies that were made before still have the agent; later ones do not.
    await Promise.all([this.code.copy, this.operators.copy]);
  }

  private answerApart(
    asker: Asker,
    runApart: RunApart,
    question: AgentsQuestion,
  ): Promise<AnswerBytes> {
    const answer = asker.slow.then(async () => {
      const started = await this.inTurn(asker, () => {
        this.view.save();
        const running = runApart(question);
        asker.copy = running.catch(() => undefined);
        return { running };
      });
      return started.running;
    });
    asker.slow = answer.catch(() => undefined);
    return answer;
  }

  private inTurn<A>(asker: Asker, read: () => A): Promise<A> {
    return new Promise((resolve, reject) => {
      asker.waiting.push({ read, resolve, reject });
      void this.answerAll();
    });
  }

  private async answerAll(): Promise<void> {
    if (this.isAnswering) return;
    this.isAnswering = true;
    for (;;) {
      const round = [...this.code.waiting.splice(0), ...this.operators.waiting.splice(0, 1)]; // Rule 6.
      if (round.length === 0) break;
      let isBehind = true;
      const catchUp = async (): Promise<void> => {
        if (!isBehind && !this.view.isNew) return;
        await this.catchUp();
        isBehind = false;
      };
      for (const { read, resolve, reject } of round)
        await this.view.ask(catchUp, read).then(resolve as (found: unknown) => void, reject);
    }
    this.isAnswering = false;
  }
}

/** Runs the question in the view for as long as it says. Throws as `askView`. */
export function answerFrom(
  view: View,
  { className, sql, values, seconds, rowsMax }: AgentsQuestion,
): AnswerBytes {
  if (className !== undefined) view.addClass(className);
  const { columns, rows } = askView(view, {
    sql,
    values,
    seconds: Math.min(seconds, QUESTION_SECONDS_MAX),
    rowsMax: Math.min(rowsMax ?? ROWS_DEFAULT, QUESTION_ROWS_MAX),
    bytesMax: ANSWER_BYTES_MAX,
  });
  const { seqs } = view;
  const answer: AgentsAnswer = { columns, rows: rows.map((row) => row.map(plainValue)), seqs };
  const body = new TextEncoder().encode(JSON.stringify(answer));
  if (body.length > ANSWER_BYTES_MAX) throw tooLarge(ANSWER_BYTES_MAX);
  return body;
}
