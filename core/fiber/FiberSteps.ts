/**
 * Keeps the results of a fiber's steps: `cf_agents_fiber_steps`, a table of the agent's own
 * database, made with the first step. `Fibers` says when a fiber is replaced and when it has ended;
 * `AgentSteps` runs the steps.
 *
 * 1. Results are rows until the fiber has ended. A fiber that continues in place of an interrupted
 *    one has the results of that one.
 * 2. Idempotency keys contain a random id, not the fiber's: a fiber's id may be used again, and a
 *    fiber that continues has another one. The id is a row, stored before the first function runs.
 * 3. A fiber that fails is undone before its row says so (`undoSteps`). Once the undoing has begun,
 *    the fiber has failed, and so has one that continues in its place.
 * 4. What a fiber writes outside of its steps stands, as it would without steps. Nothing of it is
 *    undone when the fiber continues.
 * 5. A cancelled fiber takes no more steps, also if its id is that of a new fiber by then.
 */
import { tableExists } from "../database/tableExists.ts";
import type { SqlValue } from "../database/Databases.ts";
import type { DoneStep } from "../journal/encodeCommit.ts";
import { UNDOING } from "../journal/AgentImage.ts";
import type { StepsOfFibers } from "../step/AgentSteps.ts";
import { stepKey } from "../step/stepKey.ts";
import type { KeptStep, StepStore } from "../step/StepStore.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import type { Turn } from "../turn/Turn.ts";
import { fiberOf, type KeptOfFibers } from "./Fiber.ts";
import { FiberTable } from "./FiberTable.ts";

export const FIBER_STEPS_TABLE = "cf_agents_fiber_steps";
const DDL = `CREATE TABLE IF NOT EXISTS ${FIBER_STEPS_TABLE} (
  fiber_id TEXT NOT NULL,
  key TEXT NOT NULL,
  chars INTEGER NOT NULL,
  result TEXT,
  PRIMARY KEY (fiber_id, key)
)`;
/** The key of the row of rule 2. The keys of steps are not empty. */
const WORK = "";

interface FiberStepsAgent extends Pick<AgentWork, "id" | "query" | "flush" | "leaving" | "time"> {
  /** Runs `f` as part of a turn, and of none of its steps. */
  inTurn<A>(turn: Turn, f: () => A): A;
  readonly keeping: { readonly streams: { storeSoon(): void } };
}

export class FiberSteps implements KeptOfFibers, StepsOfFibers {
  private readonly fibers: FiberTable;

  constructor(private readonly agent: FiberStepsAgent) {
    this.fibers = new FiberTable(agent);
  }

  /** Undefined: the turn is no fiber's. */
  of(turn: Turn): StepStore | undefined {
    const fiber = fiberOf(turn.cause);
    if (fiber === undefined) return undefined;
    const { agent, fibers } = this;
    // The function of a step can't write. Records of a step that begins in it are the turn's
    // writes.
    const inTurn = <A>(f: () => A): A => agent.inTurn(turn, f);
    // Rule 5.
    const isOver = (): boolean =>
      (turn.abort.fired && !agent.leaving.fired) || fibers.get(fiber)?.status !== "running";
    const failure = (): string | undefined => this.failure(fiber);
    let known: string | undefined;
    const work = (): string => (known ??= inTurn(() => this.workOf(fiber)));
    return {
      get work() {
        return work();
      },
      get isOver() {
        return isOver();
      },
      get failure() {
        return failure();
      },
      done: () => this.done(fiber),
      find: (key) => this.find(fiber, key),
      size: () => this.size(fiber),
      idempotencyKey: (key) => stepKey(agent.id, { id: work() }, key),
      begin: () => inTurn(() => agent.flush()),
      end: () => undefined,
      store: async (step) => {
        if (isOver()) return true;
        agent.keeping.streams.storeSoon();
        await inTurn(() => this.keep(fiber, step));
        return true;
      },
    };
  }

  /** Rule 3: why the fiber has failed, once it is being undone. */
  failure(fiber: string): string | undefined {
    const text = this.find(fiber, UNDOING)?.text;
    return text === undefined ? undefined : (JSON.parse(text) as string);
  }

  /** Keys of its done steps, without the records of undoing. */
  done(fiber: string): ReadonlyArray<string> {
    const sql = `SELECT key FROM ${FIBER_STEPS_TABLE} WHERE fiber_id = ? AND key GLOB '[0-9]*' ORDER BY rowid`;
    return this.read(sql, [fiber]).map(([key]) => JSON.parse(`"${String(key)}"`) as string);
  }

  /** Rule 1. */
  moved(from: string, to: string): void {
    this.write(`UPDATE ${FIBER_STEPS_TABLE} SET fiber_id = ? WHERE fiber_id = ?`, [to, from]);
  }

  ended(fiber: string): void {
    this.write(`DELETE FROM ${FIBER_STEPS_TABLE} WHERE fiber_id = ?`, [fiber]);
  }

  /** Rule 2. */
  private workOf(fiber: string): string {
    const known = this.find(fiber, WORK)?.text;
    if (known !== undefined) return known;
    const work = `fiber ${this.agent.time.id()}`;
    this.add(fiber, { key: WORK, text: work });
    return work;
  }

  private keep(fiber: string, step: DoneStep): Promise<void> {
    this.add(fiber, step);
    return this.agent.flush();
  }

  private add(fiber: string, { key, text }: DoneStep): void {
    const { agent } = this;
    if (!this.exists) agent.query(DDL, []);
    agent.query(`INSERT OR REPLACE INTO ${FIBER_STEPS_TABLE} (fiber_id, key, chars, result) VALUES (?, ?, ?, ?)`, [
      fiber, keyText(key), text?.length ?? 0, text ?? null,
    ]); // prettier-ignore
  }

  private find(fiber: string, key: string): KeptStep | undefined {
    const sql = `SELECT result FROM ${FIBER_STEPS_TABLE} WHERE fiber_id = ? AND key = ?`;
    const row = this.read(sql, [fiber, keyText(key)])[0];
    return row && { text: row[0] === null ? undefined : String(row[0]) };
  }

  private size(fiber: string): { readonly steps: number; readonly chars: number } {
    const sql = `SELECT count(*), total(chars) FROM ${FIBER_STEPS_TABLE} WHERE fiber_id = ? AND key <> '${WORK}'`;
    const [steps, chars] = this.read(sql, [fiber])[0] ?? [0, 0];
    return { steps: Number(steps), chars: Number(chars) };
  }

  private write(sql: string, params: ReadonlyArray<SqlValue>): void {
    if (this.exists) this.agent.query(sql, params);
  }

  private read(sql: string, params: ReadonlyArray<SqlValue>) {
    return this.exists ? this.agent.query(sql, params).rows : [];
  }

  /** Users may drop the table; then no step is done. */
  private get exists(): boolean {
    return tableExists(this.agent, FIBER_STEPS_TABLE);
  }
}

/** Escapes unpaired surrogates, because SQLite would store different ones as the same text. */
const keyText = (key: string): string => JSON.stringify(key).slice(1, -1);
