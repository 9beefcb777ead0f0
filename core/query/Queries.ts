/**
 * The port by which a host answers `query(env.RepoAgent, sql)` (`queryAgents`), and the answers
 * from a view that its holder keeps for them.
 *
 * 1. Questions are answered one after the other. Each brings the view up to date first (`View`, 3):
 *    what was stored before it was asked is in its answer.
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

export class Queries implements QueriesShape {
  private readonly view: View;
  private readonly catchUp: () => Promise<void>;
  private last: Promise<unknown> = Promise.resolve();
  private waiting = 0;

  constructor(view: View, catchUp: () => Promise<void>) {
    this.view = view;
    this.catchUp = catchUp;
  }

  async answer({ className, ...question }: AgentsQuestion): Promise<AgentsAnswer> {
    if (this.waiting >= WAITING_MAX)
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
    return this.inTurn(() => undefined);
  }

  /** Rule 1. */
  private inTurn<A>(read: () => A): Promise<A> {
    this.waiting++;
    const answer = this.last
      .then(() => this.view.ask(this.catchUp, read))
      .finally(() => this.waiting--);
    this.last = answer.catch(() => undefined); // who asked has the reason
    return answer;
  }
}
