/**
 * The rows of an archived part: JSON lines, one for each turn, as `agents history --json` prints
 * them, with class and name. The last row of an event has the event's frame, from which it is read
 * again; the first row of a part names the part before it. A long state is omitted (`true`): an
 * event that changes a byte of it would otherwise make a row of megabytes.
 */
import { fromBase64, toBase64 } from "../../schemas/base64.ts";
import { addressKey, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import type { ArchivePlace } from "../../schemas/Snapshot.ts";
import { historyLines } from "../journal/historyLines.ts";
import type { StoredEvent } from "../journal/Journal.ts";
import type { ArchivedPart, PartBegin } from "./Archive.ts";

/** Of the JSON of a state: 2,000 rows, which is a whole part, have 8 MB of states. */
const STATE_LENGTH_MAX = 4096;

/** Yields lines, without their ends. Throws `CorruptFrame`. */
export function* archiveRows(
  id: AgentId,
  { events, previous, stateBefore }: ArchivedPart & { readonly stateBefore: string | undefined },
): Generator<string, void, void> {
  let state = stateBefore;
  let isFirst = true;
  for (const { seq, storedMs, data } of events) {
    const told = historyLines(seq, decodeEvent(data).head, state, {
      stateLengthMax: STATE_LENGTH_MAX,
    });
    state = told.state;
    for (const [n, line] of told.lines.entries()) {
      yield JSON.stringify({
        class: id.class,
        name: id.name,
        ...line,
        ...(isFirst && previous !== undefined && { previous }),
        ...(n === told.lines.length - 1 && { stored: storedMs, event: toBase64(data) }),
      });
      isFirst = false;
    }
  }
}

interface Row {
  readonly class: string;
  readonly name: string;
  readonly seq: number;
  readonly previous?: ArchivePlace;
  readonly stored?: number;
  readonly event?: string;
}

/** The facts in the first row. Throws as `readRows`. */
export function readBegin(id: AgentId, text: string): PartBegin {
  const { seq, previous } = readRow(id, text.slice(0, text.indexOf("\n")));
  return { firstSeq: seq as Sequence, previous };
}

/** Throws `CorruptFrame` if the rows are not a part of the agent. */
export function readRows(id: AgentId, text: string): ArchivedPart {
  const events: StoredEvent[] = [];
  let previous: ArchivePlace | undefined;
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const row = readRow(id, line);
    previous ??= row.previous;
    if (row.event === undefined || row.stored === undefined) continue;
    events.push({ seq: row.seq as Sequence, storedMs: row.stored, data: fromBase64(row.event) });
  }
  return { events, previous };
}

function readRow(id: AgentId, line: string): Row {
  const row = JSON.parse(line) as Row;
  if (row.class !== id.class || row.name !== id.name)
    throw new CorruptFrame({
      message: `a row of ${row.class}/${row.name} is among those of ${addressKey(id)}`,
    });
  return row;
}
