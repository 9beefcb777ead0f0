/**
 * Runs inputs on an agent in its own in-memory installation (`joinMemory`): a past event on other
 * code at its original time, or inputs on a fork of the agent as it is now.
 *
 * 1. The agent starts as it was then: from the snapshot, and from the preceding event, with which
 *    the new journal begins. Sequences are those of the new journal.
 * 2. Time moves until everything is done, including retries. The result is the agent at the event
 *    that ended its last input; later events of what it queued or scheduled do not count.
 * 3. Nothing leaves the process: what the agent sends is recorded and returned, and steps return
 *    their recorded results (`RecordedSteps`). An input's attempts count on from those that had
 *    failed.
 */
import type { PastEvent, PastInput, Rerun } from "../../core/history/Rerun.ts";
import { RecordedTurn } from "../../core/step/RecordedSteps.ts";
import { beginningOf } from "../../core/history/pastWebhooks.ts";
import { isBySequence, transplant } from "../../core/journal/transplant.ts";
import { isOver } from "../../core/history/pastTurns.ts";
import { messageOf } from "../../core/errors/thrown.ts";
import type { LogFields, LogShape } from "../../core/telemetry/Log.ts";
import { rebuildAgent, type Rebuilt } from "../../core/journal/rebuildAgent.ts";
import { addressKey, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { encodeEnvelope, type InboxHead } from "../../schemas/InboxEnvelope.ts";
import {
  decodeEvent,
  type Cause,
  type JournalHead,
  type TurnRecord,
} from "../../schemas/JournalEvent.ts";
import { decodeSnapshot, encodeSnapshot } from "../../schemas/Snapshot.ts";
import type { LoadedModule } from "../module/LoadedModule.ts";
import { drive } from "./drive.ts";
import { joinMemory, type MemoryInstallation } from "./joinMemory.ts";
import { TestOutgoing } from "./TestOutgoing.ts";

export interface RerunCode {
  readonly module: LoadedModule;
  readonly env: Readonly<Record<string, unknown>>;
}

/** The first sequence of a stream. */
const FIRST = 1 as Sequence;

/** The error of a call to another system that is not in a step. */
const NOTHING_SENT =
  "nothing is sent here, and only steps (this.step, this.fetch) have recorded answers";

/** Prints nothing. The last error explains an input that does not end. */
class QuietLog implements LogShape {
  lastError: string | undefined;
  readonly debug = (): void => undefined;
  readonly info = (): void => undefined;
  readonly warn = (_message: string, fields?: LogFields): void => this.note(fields);
  readonly error = (_message: string, fields?: LogFields): void => this.note(fields);

  private note(fields: LogFields = {}): void {
    const { error } = fields;
    // The rest of the text is its stack.
    if (typeof error === "string") this.lastError = error.split("\n", 1)[0]!;
  }

  /** The error with what the log had last, if anything. */
  explain(error: unknown): unknown {
    if (this.lastError === undefined) return error;
    return new Error(`${this.lastError}: ${messageOf(error).replaceAll(/\s+/g, " ")}`);
  }
}

/** Rejects if an input does not end, and as `joinMemory` does. */
export async function rerunEvent({ module, env }: RerunCode, past: PastEvent): Promise<Rerun> {
  const { id, inputs } = past;
  const [first] = inputs;
  let outgoing: TestOutgoing | undefined;
  const log = new QuietLog();
  const recorded = new Map(inputs.map(({ head, steps }) => [head.key, new RecordedTurn(steps)]));
  // Rule 3. Items that the inputs queued have no results, but must not reach the world either.
  const recordedOf = (cause: Cause): RecordedTurn => {
    const key = redriveOf(cause, inputs)?.head.key ?? cause.id!;
    const known = recorded.get(key) ?? new RecordedTurn([]);
    recorded.set(key, known);
    return known;
  };
  const installation = await joinMemory({
    module,
    env,
    seed: 1,
    startMs: past.startMs ?? first?.head.time,
    publicUrl: first?.head.url === undefined ? "http://localhost" : new URL(first.head.url).origin,
    log,
    recorded: { of: recordedOf },
    outgoing: ({ nowMs }) => (outgoing = new TestOutgoing(nowMs, undefined, NOTHING_SENT)),
  });
  const sent = outgoing!;
  const { driver, close } = drive(installation, sent);
  try {
    await plant(installation, past);
    for (const { head, body } of inputs) {
      installation.broker.inbox.publish(id, encodeEnvelope(head, body));
      await driver.settled();
    }
    const { seq, ends } = await endOf(installation, past);
    const { journal, snapshots, databases } = installation;
    const opened: Rebuilt[] = [];
    const rebuild = async (atSeq?: Sequence): Promise<Rebuilt> => {
      const sources = { journal, snapshots, databases, ...(atSeq !== undefined && { atSeq }) };
      const rebuilt = await rebuildAgent(id, sources);
      opened.push(rebuilt);
      return rebuilt;
    };
    return {
      after: await rebuild(seq),
      rest: async () => {
        const agent = await rebuild();
        return { agent, before: await beginningOf(journal, agent) };
      },
      errors: ends.flatMap(({ error }) => error ?? []),
      steps: ends.flatMap(({ cause }) => recordedOf(cause).differences),
      sends: sent.sent.map(({ kind, method, url }) => ({ kind, method, url })),
      close: async () => {
        for (const { database } of opened) database.close();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw log.explain(error);
  }
}

/** Rule 1. */
async function plant(
  { broker, snapshots }: MemoryInstallation,
  { id, before, inputs }: PastEvent,
): Promise<void> {
  if (before === undefined) return;
  const seq = broker.journal.append(id, transplant(before.event, { id, epoch: 0 as Epoch }), 0 as Sequence); // prettier-ignore
  if (seq === undefined) throw new Error("a journal that is empty refused an event");
  const { head, image } = decodeSnapshot(before.snapshot);
  const { life: _elsewhere, steps: _results, parts: _open, ...kept } = head;
  const done = head.done.flatMap(([key, timeMs]) =>
    isBySequence(key) ? [] : [[key, timeMs, seq] as const],
  );
  const begun = inputs
    .filter(({ attempts }) => attempts > 0)
    .map(({ head: { key }, attempts }) => [key, attempts, 0] as const);
  await snapshots.put(id, encodeSnapshot({ ...kept, seq, epoch: 0, done, begun }, image));
}

/** Rule 2. Returns the turns that ended the inputs, and the sequence of the last one's event. */
async function endOf(
  { journal }: MemoryInstallation,
  { id, before, inputs }: PastEvent,
): Promise<{ readonly seq: Sequence; readonly ends: ReadonlyArray<TurnRecord> }> {
  const left = new Map(inputs.map(({ head }) => [head.key, head]));
  const jobs: Job[] = [];
  const ends: TurnRecord[] = [];
  // Skips the event that the new journal begins with.
  const fromSeq = (before === undefined ? FIRST : FIRST + 1) as Sequence;
  for await (const { seq, data } of journal.read(id, { fromSeq })) {
    const { head } = decodeEvent(data);
    for (const turn of head.turns) {
      const { cause, dead } = turn;
      const input = left.get(cause.id ?? "");
      const job = jobs.findIndex((one) => isEndOf(one, turn, head));
      if (job >= 0) jobs.splice(job, 1);
      else if (input === undefined || !isOver(turn)) continue;
      else left.delete(input.key);
      const redriven = dead === true ? undefined : jobOf(input, head);
      if (redriven === undefined) ends.push(turn);
      else jobs.push(redriven);
      if (left.size + jobs.length === 0) return { seq, ends };
    }
  }
  const waiting = [...left.keys(), ...jobs.map(({ callback }) => callback)];
  throw new Error(`${addressKey(id)} did not finish ${waiting.join(", ")}`);
}

/** A job that a redrive has put back: an item of a queue, or a schedule. */
interface Job {
  readonly kind: "queue" | "schedule";
  readonly callback: string;
  readonly id: string;
}

/** Undefined: the input is no redrive. `head`: of the event with which it was done. */
function jobOf(input: InboxHead | undefined, { queue, schedules }: JournalHead): Job | undefined {
  if (input?.job === undefined) return undefined;
  const { kind } = input.job;
  const rows = (kind === "queue" ? queue : schedules)?.put as ReadonlyArray<Omit<Job, "kind">>;
  const row = rows?.find(({ callback }) => callback === input.type);
  return row && { kind, callback: row.callback, id: row.id };
}

/**
 * The redrive that has put the turn's job back. The job has a key of its own, so it is known by
 * what it runs: jobs that are equal have the same results.
 */
const redriveOf = (
  { kind, type, body = "" }: Cause,
  inputs: ReadonlyArray<PastInput>,
): PastInput | undefined =>
  inputs.find(
    (input) =>
      input.head.job?.kind === kind && input.head.type === type && textOf(input.body) === body,
  );

const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** An item leaves its queue with its last turn; a schedule's turns have its id in their key. */
const isEndOf = ({ kind, id }: Job, turn: TurnRecord, { queue }: JournalHead): boolean =>
  isOver(turn) &&
  turn.cause.kind === kind &&
  (kind === "queue" ? queue?.del?.includes(id) : turn.cause.id?.includes(`:${id}:`)) === true;
