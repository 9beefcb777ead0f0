/**
 * The journal of one process of a simulation: what becomes of its appends on the way, and the
 * planted bugs that a journal can have. An append whose outcome the process never learns may be
 * stored at once, never, or later, when its agent is somebody else's.
 */
import type { AppendResult, JournalShape } from "../../core/journal/Journal.ts";
import { CorruptFrame, UnknownVersion } from "../../schemas/Frame.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import type { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import type { MemoryConnection } from "../../services/memory/MemoryConnection.ts";
import { makeMemoryJournal } from "../../services/memory/MemoryJournal.ts";
import { collect } from "../kit/collect.ts";
import type { CrashPoint } from "./rig/crashPoints.ts";
import type { Ask } from "./simPorts.ts";
import type { Observed } from "./rig/Observed.ts";
import { Random } from "./rig/Random.ts";
import { commitsInGroups, groupedAppend } from "./simGroup.ts";
import type { SimProcess } from "./rig/SimProcess.ts";
import type { Weather } from "./rig/Weather.ts";

export interface JournalParts {
  readonly seed: number;
  readonly broker: MemoryBroker;
  readonly process: SimProcess;
  readonly weather: Weather;
  readonly ask: Ask;
  readonly observed: Observed;
}

const POINTS: Readonly<Record<string, readonly [CrashPoint, CrashPoint]>> = {
  turns: ["commit:before-append", "commit:after-append"],
  claimed: ["claim:before-append", "claim:after-append"],
  destroyed: ["destroy:before-append", "destroy:after-append"],
};

export function simJournal(wire: MemoryConnection, parts: JournalParts): JournalShape {
  const { broker, process, weather, ask } = parts;
  const memory = makeMemoryJournal(wire);
  const grouped = process.name.startsWith("host") && commitsInGroups(parts.seed);
  const journal = grouped
    ? {
        ...memory,
        append: groupedAppend(wire, { weather, random: new Random(parts.seed, process.name) }),
      }
    : memory;
  const { bug } = weather;
  const append: JournalShape["append"] = async (id, given, options) => {
    const data = bug?.event?.(given) ?? given;
    const fate = weather.fateOfAppend();
    if (fate === "never") return UNKNOWN;
    if (fate === "later") {
      broker.time.after(weather.lateMs(), () => {
        // Nobody hears of it any more: the compare-and-set decides.
        if (broker.journal.append(id, data, options.expectedSeq) !== undefined) return;
        weather.bit("late append refused");
        if (bug?.acceptsStale === true)
          broker.journal.append(id, data, broker.journal.last(id)?.seq ?? options.expectedSeq);
      });
      return UNKNOWN;
    }
    const result = await journal.append(id, data, options);
    if (result._tag === "Conflict") weather.bit("append refused");
    if (result._tag === "Conflict" && bug?.acceptsStale === true) {
      const seq = broker.journal.append(id, data, broker.journal.last(id)!.seq);
      if (seq !== undefined) return { _tag: "Stored", seq };
    }
    return fate === "at once" ? UNKNOWN : result;
  };
  return {
    ...journal,
    append: async (id, data, options) => {
      const { head } = decodeEvent(data);
      const result = await ask(POINTS[head.kind], () => append(id, data, options));
      weather.trace.add(`${process.name} append ${id.name} ${head.kind} ${told(result)}`);
      return result;
    },
    read: async function* (id, range) {
      const events = await ask(["rebuild:before", "rebuild:after"], () =>
        collect(journal.read(id, range)),
      );
      for (const event of events) {
        if (bug?.skipsDamage !== true || !isCorrupt(event.data)) yield event;
      }
    },
    last: (id) => ask(undefined, () => journal.last(id)),
    first: (id) => ask(undefined, () => journal.first(id)),
    trim: (id, keepFromSeq) =>
      ask(["trim:before", "trim:after"], () => {
        parts.observed.trims(id, broker.journal.eventsOf(id), keepFromSeq);
        weather.bit("trimmed");
        return journal.trim(id, keepFromSeq);
      }),
  };
}

const UNKNOWN: AppendResult = { _tag: "Unknown", message: "no answer came in time" };

const told = (result: AppendResult): string =>
  result._tag === "Stored" ? `stored ${result.seq}` : result._tag.toLowerCase();

function isCorrupt(data: Uint8Array): boolean {
  try {
    decodeEvent(data);
    return false;
  } catch (error) {
    return error instanceof CorruptFrame || error instanceof UnknownVersion;
  }
}
