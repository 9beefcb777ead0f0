/**
 * Runs a past event again on other code, in its own in-memory installation (`joinMemory`), at the
 * event's original time.
 *
 * 1. The agent starts as it was then: from the snapshot, and from the preceding event, with which
 *    the new journal begins. Sequences are those of the new journal.
 * 2. Time moves until everything is done, including retries. The result is the agent at the event
 *    that ended its last input; later events of what it queued or scheduled do not count.
 * 3. Nothing leaves the process: what the agent sends is recorded and returned, and steps return
 *    their recorded results (`RecordedSteps`). An input's attempts count on from those that had
 *    failed.
 */
import type { PastEvent, Rerun } from "../../core/history/Rerun.ts";
import { RecordedTurn } from "../../core/step/RecordedSteps.ts";
import { transplant } from "../../core/journal/transplant.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { addressKey, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
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
const SILENT: LogShape = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/** Rejects if an input does not end, and as `joinMemory` does. */
export async function rerunEvent({ module, env }: RerunCode, past: PastEvent): Promise<Rerun> {
  const { id, inputs } = past;
  const [first] = inputs;
  let outgoing: TestOutgoing | undefined;
  const recorded = new Map(inputs.map(({ head, steps }) => [head.key, new RecordedTurn(steps)]));
  const installation = await joinMemory({
    module,
    env,
    seed: 1,
    startMs: first?.head.time,
    publicUrl: first?.head.url === undefined ? "http://localhost" : new URL(first.head.url).origin,
    log: SILENT,
    // Rule 3. Items that the inputs queued have no results, but must not reach the world either.
    recorded: { of: (input) => recorded.get(input) ?? new RecordedTurn([]) },
    outgoing: ({ nowMs }) => (outgoing = new TestOutgoing(nowMs, undefined)),
  });
  const sent = outgoing!;
  const { driver, close } = drive(installation, sent);
  try {
    await plant(installation, past);
    for (const { head, body } of inputs) {
      installation.broker.inbox.publish(id, encodeEnvelope(head, body));
      await driver.settled();
    }
    const { seq, errors } = await endOf(installation, past);
    const { journal, snapshots, databases } = installation;
    const rebuilt = await rebuildAgent(id, { journal, snapshots, databases, atSeq: seq });
    return {
      after: rebuilt,
      errors,
      steps: [...recorded.values()].flatMap(({ differences }) => differences),
      sends: sent.sent.map(({ kind, method, url }) => ({ kind, method, url })),
      close: async () => {
        rebuilt.database.close();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
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
  const done = head.done.map(([key, timeMs]) => [key, timeMs, seq] as const);
  const begun = inputs
    .filter(({ attempts }) => attempts > 0)
    .map(({ head: { key }, attempts }) => [key, attempts, 0] as const);
  await snapshots.put(id, encodeSnapshot({ ...kept, seq, epoch: 0, done, begun }, image));
}

/** Rule 2. */
async function endOf(
  { journal }: MemoryInstallation,
  { id, before, inputs }: PastEvent,
): Promise<{ readonly seq: Sequence; readonly errors: ReadonlyArray<string> }> {
  const left = new Set(inputs.map(({ head }) => head.key));
  const errors = new Map<string, string>();
  // Skips the event that the new journal begins with.
  const fromSeq = (before === undefined ? FIRST : FIRST + 1) as Sequence;
  for await (const { seq, data } of journal.read(id, { fromSeq }))
    for (const { cause, done = [], dead, error } of decodeEvent(data).head.turns) {
      const key = cause.id;
      if (key === undefined || !left.has(key)) continue;
      if (error !== undefined) errors.set(key, error);
      if (!done.includes(key) && dead !== true) continue;
      left.delete(key);
      if (left.size === 0) return { seq, errors: [...errors.values()] };
    }
  throw new Error(`${addressKey(id)} did not finish ${[...left].join(", ")}`);
}
