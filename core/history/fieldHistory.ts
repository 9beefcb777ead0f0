/**
 * The turns that wrote one field of an agent's state, or one row of its tables, in order. Read from
 * the journal alone; where its beginning was trimmed, from the base on. For `agents why` and the
 * console.
 *
 * 1. A turn is listed when the value after it differs from the value before it.
 * 2. Pages are not attributed to turns. For a row, an event with several turns therefore names all
 *    of them that ran SQL which wrote.
 */
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { Cause, JournalEvent } from "../../schemas/JournalEvent.ts";
import { stateTextOf } from "../../schemas/Snapshot.ts";
import type { AgentDatabase, DatabasesShape } from "../database/Databases.ts";
import { readFromBase } from "../journal/Beginnings.ts";
import { valueAt } from "./FieldPath.ts";
import type { JournalShape } from "../journal/Journal.ts";
import type { SnapshotsShape } from "../journal/Snapshots.ts";
import { briefCause } from "../journal/historyLines.ts";
import { applyState } from "../journal/stateChange.ts";
import { rowAt } from "./tableRows.ts";
import { WholeCauses } from "./WholeCauses.ts";
import { defined } from "../collections/defined.ts";

/** `names`: below the state or the row. Empty: the whole. */
export type Field =
  | { readonly kind: "state"; readonly names: ReadonlyArray<string> }
  | {
      readonly kind: "row";
      readonly table: string;
      readonly key: ReadonlyArray<string | number | null>;
      readonly names: ReadonlyArray<string>;
    };

export interface FieldWrite {
  readonly seq: number;
  /** ISO 8601, when the host wrote the event. */
  readonly time: string;
  /** Without headers and body. More than one: rule 2. */
  readonly causes: ReadonlyArray<WriteCause>;
  /** Absent: it did not exist. */
  readonly before?: unknown;
  /** Absent: it is gone. */
  readonly after?: unknown;
}

/** `kind` is also `claimed` and `destroyed`, and `trimmed` for what the base begins with. */
type WriteCause = Omit<Cause, "kind" | "headers" | "body" | "bodyBase64"> & {
  readonly kind: string;
};

interface FieldSources {
  readonly journal: Pick<JournalShape, "read" | "first">;
  readonly snapshots: Pick<SnapshotsShape, "bases">;
  readonly databases: Pick<DatabasesShape, "open">;
}

/** The oldest first. Rejects as `readFromBase`. */
export async function* fieldHistory(
  id: AgentId,
  field: Field,
  sources: FieldSources,
): AsyncGenerator<FieldWrite> {
  const database = field.kind === "row" ? sources.databases.open(id).database : undefined;
  const follow = database === undefined ? followState(field.names) : followRow(field as Row, database); // prettier-ignore
  const causes = new WholeCauses();
  try {
    for await (const read of readFromBase(id, sources)) {
      if (read._tag === "Base") {
        const { head, image } = read.base;
        yield* told(head.seq, head.time, follow.restart(stateTextOf(head), image));
        continue;
      }
      const { seq } = read.event;
      const event = read.decode();
      yield* told(seq, event.head.time, follow.apply(event, causes.of(event.head)));
    }
  } finally {
    database?.close();
  }
}

type Row = Extract<Field, { kind: "row" }>;

interface Write {
  readonly causes: ReadonlyArray<Cause | { readonly kind: string }>;
  readonly before: unknown;
  readonly after: unknown;
}

interface Follower {
  readonly restart: (state: string | undefined, image: Uint8Array) => Iterable<Write>;
  readonly apply: (event: JournalEvent, causes: ReadonlyArray<Cause>) => Iterable<Write>;
}

function followState(names: ReadonlyArray<string>): Follower {
  let text: string | undefined;
  let value: unknown;
  const change = function* (now: string | undefined, by: Write["causes"]): Generator<Write> {
    if (now === text) return;
    text = now;
    const before = value;
    value = text === undefined ? undefined : valueAt(JSON.parse(text), names);
    if (!same(before, value)) yield { causes: by, before, after: value };
  };
  return {
    restart: (state) => change(state, [TRIMMED]),
    *apply({ head: { kind, turns } }, causes) {
      if (kind === "destroyed") yield* change(undefined, [causes[0] ?? { kind }]);
      for (const [n, turn] of turns.entries())
        if (turn.state !== undefined) yield* change(applyState(text, turn.state), [causes[n]!]);
    },
  };
}

function followRow({ table, key, names }: Row, database: AgentDatabase): Follower {
  let value: unknown;
  const look = function* (by: Write["causes"]): Generator<Write> {
    const before = value;
    value = valueAt(rowAt(database, table, key), names);
    if (!same(before, value)) yield { causes: by, before, after: value };
  };
  return {
    *restart(_state, image) {
      database.restore(image);
      yield* look([TRIMMED]);
    },
    *apply({ head: { kind, turns }, delta }, causes) {
      if (kind === "destroyed") database.restore(new Uint8Array(0));
      if (delta.length > 0) database.apply(delta);
      else if (kind !== "destroyed") return;
      const wrote = causes.filter((_, n) => turns[n]!.sql !== undefined);
      const by = wrote.length > 0 ? wrote : causes;
      yield* look(by.length > 0 ? by : [{ kind }]);
    },
  };
}

const TRIMMED = { kind: "trimmed" };

function* told(
  seq: Sequence | number,
  timeMs: number,
  writes: Iterable<Write>,
): Generator<FieldWrite> {
  for (const { causes, before, after } of writes)
    yield {
      seq,
      time: new Date(timeMs).toISOString(),
      causes: causes.map(briefCause),
      ...defined({ before, after }),
    };
}

const same = (one: unknown, other: unknown): boolean =>
  JSON.stringify(one) === JSON.stringify(other);
