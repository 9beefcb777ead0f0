/**
 * A handle on one agent under test: the methods and `fetch` of its stub, and functions that read
 * its stored data. These rebuild the agent from its journal, independently of the running one, so
 * that they return what would survive a crash.
 */
import { makeStub } from "../../core/namespace/makeStub.ts";
import type { CallClientSource, StubCalls } from "../../core/namespace/stubTarget.ts";
import type { AgentStub } from "../../core/namespace/AgentStub.ts";
import { historyLines, type HistoryLine } from "../../core/journal/historyLines.ts";
import { pastTurns, type PastRecords } from "../../core/history/pastTurns.ts";
import { envelopeOf } from "../../core/history/pastWebhooks.ts";
import { QueueTable, toQueueItem, type QueueItem } from "../../core/queue/QueueTable.ts";
import type { Schedule } from "../../core/schedule/Schedule.ts";
import { ScheduleTable, toSchedule } from "../../core/schedule/ScheduleTable.ts";
import { RecordedTurn } from "../../core/step/RecordedSteps.ts";
import type { SqlValue } from "../../core/database/Databases.ts";
import {
  rebuildAgent,
  type RebuildSources,
  type Rebuilt,
} from "../../core/journal/rebuildAgent.ts";
import { addressKey, type AgentId, type Sequence } from "../../schemas/Address.ts";
import type { InboxEnvelope } from "../../schemas/InboxEnvelope.ts";
import { decodeEvent, type TurnRecord } from "../../schemas/JournalEvent.ts";
import type { TestDeadLetter } from "./deadLetters.ts";
import type { Driver } from "./Driver.ts";
import type { Sent } from "./TestOutgoing.ts";

/** What a test can read of an agent, in addition to the agent's own methods. */
export interface AgentLooks<State> {
  /** The plain stub, for an agent's method that shares its name with a function here. */
  readonly stub: AgentStub<unknown>;
  /** The stored state; undefined if it was never set. */
  readonly state: () => Promise<State | undefined>;
  /** Returns the rows of a query. Rejects for a query that writes. */
  readonly sql: <Row = Record<string, SqlValue>>(
    query: string,
    ...params: ReadonlyArray<SqlValue | boolean>
  ) => Promise<ReadonlyArray<Row>>;
  /** The journal, turn by turn: inputs and changes, oldest first. */
  readonly events: () => Promise<ReadonlyArray<HistoryLine>>;
  /** The stored schedules, in the order in which they are due. */
  readonly schedules: () => Promise<ReadonlyArray<Schedule>>;
  /** The waiting items, in the order in which they run. */
  readonly queue: () => Promise<ReadonlyArray<QueueItem>>;
  /** Every attempt of an outgoing webhook, mail or `fetch` of the agent, oldest first. */
  readonly sends: () => ReadonlyArray<Sent>;
  /** The agent's dead letters, oldest first. */
  readonly deadLetters: () => Promise<ReadonlyArray<TestDeadLetter>>;
  /**
   * Runs the webhooks of a recorded history on this agent, one after the other. Their steps and
   * requests return the recorded results instead of being made again. Takes the lines of `agents
   * history <class> <name> --json`. Resolves to a line for each step and request that is not in the
   * history.
   */
  readonly replay: (history: ReadonlyArray<HistoryLine>) => Promise<ReadonlyArray<string>>;
  /** Whether the agent is in memory. False while it hibernates, and after a crash. */
  readonly isActive: () => boolean;
}

/** A method of `A` that has the name of a member of `AgentLooks` is called through `stub`. */
export type TestAgent<A> = AgentLooks<StateOf<A>> & Omit<AgentStub<A>, keyof AgentLooks<unknown>>;

/** The State of an `Agent<Env, State>`. */
export type StateOf<A> = A extends { readonly initialState: infer State } ? State : unknown;

interface TestAgentParts {
  readonly id: AgentId;
  readonly driver: Driver;
  readonly calls: CallClientSource;
  readonly sources: RebuildSources;
  readonly sends: () => ReadonlyArray<Sent>;
  readonly deadLetters: () => Promise<ReadonlyArray<TestDeadLetter>>;
  readonly isActive: () => boolean;
  /** The recorded results of past inputs' steps, by the inputs' keys. */
  readonly recorded: Map<string, RecordedTurn>;
  /** Stores an input for the agent. */
  readonly publish: (input: InboxEnvelope) => void;
}

export function makeTestAgent<A>(parts: TestAgentParts): TestAgent<A> {
  const looks = looksOf(parts);
  return new Proxy(looks, {
    get: (_target, key) =>
      (Object.hasOwn(looks, key)
        ? looks[key as keyof typeof looks]
        : looks.stub[key as keyof typeof looks.stub]) as unknown,
  }) as unknown as TestAgent<A>;
}

function looksOf(parts: TestAgentParts): AgentLooks<unknown> {
  const { id, driver, sources, calls } = parts;
  const isOwn = ({ agent }: { readonly agent: { class: string; name: string } }): boolean =>
    agent.class === id.class && agent.name === id.name;
  const look = async <B>(f: (rebuilt: Rebuilt) => B): Promise<B> => {
    await driver.quiet();
    const rebuilt = await rebuildAgent(id, sources);
    try {
      return f(rebuilt);
    } finally {
      rebuilt.database.close();
    }
  };
  return {
    stub: makeStub(() => driven(driver, calls()), id),
    state: () => look(({ state }) => state),
    sql: (query, ...params) => look(({ database }) => readRows(database, query, params)) as never,
    events: async () => {
      await driver.quiet();
      const lines: HistoryLine[] = [];
      let state: string | undefined;
      for await (const { seq, data } of sources.journal.read(id, { fromSeq: 1 as Sequence })) {
        const history = historyLines(seq, decodeEvent(data).head, state);
        state = history.state;
        lines.push(...history.lines);
      }
      return lines;
    },
    schedules: () =>
      look(({ database }) =>
        new ScheduleTable(database)
          .all()
          .toSorted((a, b) => (a.dueMs ?? Infinity) - (b.dueMs ?? Infinity))
          .map(toSchedule),
      ),
    queue: () => look(({ database }) => new QueueTable(database).all().map(toQueueItem)),
    sends: () => parts.sends().filter(isOwn),
    deadLetters: async () => (await parts.deadLetters()).filter(isOwn),
    isActive: parts.isActive,
    replay: (history) => replay(parts, history),
  };
}

/** Moves time for each call, the parts of a streamed body included, until it is answered. */
const driven = (driver: Driver, calls: StubCalls): StubCalls => ({
  call: (id, call, options) => {
    const name = call.kind === "rpc" || call.kind === "durable" ? call.method : "fetch";
    return driver.settle(`${addressKey(id)}.${name}()`, calls.call(id, call, options));
  },
});

const LINES = 'the lines of "agents history <class> <name> --json", each parsed as JSON';

/** Throws `TypeError` for what are no lines of a history. */
function checkHistory(history: unknown): void {
  if (!Array.isArray(history)) throw new TypeError(`replay: the history is no list: pass ${LINES}`);
  for (const [index, line] of (history as ReadonlyArray<unknown>).entries()) {
    const { seq, cause } = (line ?? {}) as Partial<HistoryLine>;
    if (typeof seq !== "number" || typeof cause?.kind !== "string")
      throw new TypeError(`replay: history[${index}] is no line of a history: pass ${LINES}`);
  }
}

async function replay(
  { driver, publish, recorded }: TestAgentParts,
  history: ReadonlyArray<HistoryLine>,
): Promise<ReadonlyArray<string>> {
  checkHistory(history);
  async function* events(): AsyncGenerator<PastRecords> {
    for (const { seq, state: _after, ...line } of history)
      yield { seq, head: { turns: [line as TurnRecord] } };
  }
  const lines: string[] = [];
  for await (const { turns } of pastTurns(events()))
    for (const [key, { cause, steps }] of turns) {
      const turn = new RecordedTurn(steps);
      recorded.set(key, turn);
      const { head, body } = envelopeOf(cause, { time: cause.time ?? 0 });
      // The agent of the test may have another name.
      const { entity: _then, ...kept } = head;
      publish({ head: kept, body });
      await driver.settled();
      lines.push(...turn.differences.map((line) => `${key}: ${line}`));
    }
  return lines;
}

/** Throws for a query that writes. */
function readRows(
  database: Rebuilt["database"],
  query: string,
  params: ReadonlyArray<SqlValue | boolean>,
): ReadonlyArray<Record<string, SqlValue>> {
  const { columns, rows, wrote } = database.query(query, params);
  if (wrote)
    throw new Error("sql() reads a copy: only the agent's own code can write to its database");
  return rows.map((row) => Object.fromEntries(columns.map((column, i) => [column, row[i]!])));
}
