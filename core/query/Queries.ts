/**
 * The port by which a host answers `query(env.RepoAgent, sql)` (`queryAgents`), and the answers
 * from a view that its holder keeps for them.
 *
 * 1. Questions that wait are answered together, one after the other, from a view that was brought
 *    up to date after they were asked (`View`, 3): what was stored before is in their answers.
 * 2. An agent that was erased is out of the view, bytes included, when `erased` resolves.
 * 3. The class of the binding that is asked has a table, though it may have no agents.
 */
import type { AgentsAnswer, AgentsQuestion } from "../../schemas/AgentsQuestion.ts";
import { askView, plainValue, QueryRefused } from "./askView.ts";
import type { View } from "./View.ts";

export interface QueriesShape {
  /** Rejects with `QueryRefused`, and with what the view's sources failed with. */
  readonly answer: (question: AgentsQuestion) => Promise<AgentsAnswer>;
  /** Rule 2. */
  readonly erased: () => Promise<void>;
}

/** The host and the caller hold the whole answer in memory. */
const QUERY_ROWS_MAX = 10_000;
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
  /** Those of `waiting`, and of the round that is being answered. */
  private unanswered = 0;

  constructor(view: View, catchUp: () => Promise<void>) {
    this.view = view;
    this.catchUp = catchUp;
  }

  async answer({ className, ...question }: AgentsQuestion): Promise<AgentsAnswer> {
    if (this.unanswered >= WAITING_MAX)
      throw new QueryRefused(
        `More than ${WAITING_MAX} queries wait for an answer: ask again later`,
      );
    return this.inTurn(() => {
      this.view.addClass(className);
      const { columns, rows } = askView(this.view, { ...question, rowsMax: QUERY_ROWS_MAX });
      return { columns, rows: rows.map((row) => row.map(plainValue)) };
    });
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
