/**
 * The port by which a host answers questions over all agents (`askHosts`), and the answers from a
 * view that its holder keeps for them.
 *
 * 1. Questions that wait are answered together, one after the other, from a view that was brought
 *    up to date after they were asked (`View`, 3): what was stored before is in their answers.
 * 2. An agent that was erased is out of the view, bytes included, when `erased` resolves.
 * 3. The class of the binding that is asked has a table, even if it has no agents.
 * 4. An answer is encoded where the view is read, so that a large one does not block the thread of
 *    the host's agents.
 */
import type { AgentsAnswer, AgentsQuestion } from "../../schemas/AgentsQuestion.ts";
import { QUESTION_ROWS_MAX, QUESTION_SECONDS_MAX } from "./askHosts.ts";
import { askView, plainValue, QueryRefused, tooLarge } from "./askView.ts";
import type { View } from "./View.ts";

export interface QueriesShape {
  /**
   * Resolves to the JSON of an `AgentsAnswer`, whose memory is the caller's (4). Rejects with
   * `QueryRefused`, and with what the view's sources failed with.
   */
  readonly answer: (question: AgentsQuestion) => Promise<Uint8Array<ArrayBuffer>>;
  /** Rule 2. */
  readonly erased: () => Promise<void>;
}

/** The host and the caller hold the whole answer in memory. */
const ROWS_DEFAULT = 10_000;
/** Bytes of JSON: two copies of it are in memory at each of two processes. */
const ANSWER_BYTES_MAX = 16 * 2 ** 20;
/** Each takes some milliseconds. More wait only where statements take seconds. */
const WAITING_MAX = 64;

interface Waiting {
  readonly read: () => unknown;
  readonly resolve: (found: never) => void;
  readonly reject: (error: unknown) => void;
}

export class Queries implements QueriesShape {
  private readonly view: View;
  private readonly catchUp: () => Promise<void>;
  private waiting: Waiting[] = [];
  /** How many questions are in `waiting` and in the round that is being answered. */
  private unanswered = 0;

  constructor(view: View, catchUp: () => Promise<void>) {
    this.view = view;
    this.catchUp = catchUp;
  }

  async answer(question: AgentsQuestion): Promise<Uint8Array<ArrayBuffer>> {
    if (this.unanswered >= WAITING_MAX)
      throw new QueryRefused(`More than ${WAITING_MAX} queries are waiting: try again later`);
    return this.inTurn(() => this.read(question));
  }

  private read({
    className,
    sql,
    values,
    seconds,
    rowsMax,
  }: AgentsQuestion): Uint8Array<ArrayBuffer> {
    const { view } = this;
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

  erased(): Promise<void> {
    return this.inTurn(() => this.view.save());
  }

  private inTurn<A>(read: () => A): Promise<A> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ read, resolve, reject });
      if (this.unanswered++ === 0) void this.answerAll();
    });
  }

  private async answerAll(): Promise<void> {
    while (this.unanswered > 0) {
      const round = this.waiting;
      this.waiting = [];
      let isBehind = true;
      const catchUp = async (): Promise<void> => {
        if (!isBehind && !this.view.isNew) return;
        await this.catchUp();
        isBehind = false;
      };
      for (const { read, resolve, reject } of round) {
        await this.view.ask(catchUp, read).then(resolve as (found: unknown) => void, reject);
        this.unanswered--;
      }
    }
  }
}
