/**
 * Reads journals whose beginning was trimmed as if they had one: an agent's base takes the place of
 * the events before its journal's first. For whoever carries agents elsewhere (`agents export`,
 * `fork`, `backup`) or tells their history.
 *
 * 1. Each event names the one before it. Where that is not the one that was read last, the events
 *    between were trimmed, before the reading or meanwhile.
 * 2. A base may cover events that are still there (`baseFor`). Those are left out.
 */
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import { CorruptFrame, UnknownVersion } from "../../schemas/Frame.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import { baseFor, type Base } from "./baseFor.ts";
import { HistoryTrimmed } from "./HistoryTrimmed.ts";
import type { JournalShape, StoredEvent } from "./Journal.ts";
import type { SnapshotsShape } from "./Snapshots.ts";

export type Read<E extends StoredEvent = StoredEvent> =
  | { readonly _tag: "Event"; readonly event: E }
  /** `restarts`: events before it were read, which the base covers too. */
  | { readonly _tag: "Base"; readonly base: Base; readonly restarts: boolean }
  /** The events between were trimmed, and no base of them can be read. */
  | { readonly _tag: "Lost"; readonly event: E; readonly after: number };

/** Serves one agent or many, whose events come in order. Keeps a number for each. */
export class Beginnings {
  private readonly snapshots: Pick<SnapshotsShape, "bases">;
  private readonly known: (id: AgentId) => number;
  private readonly seqs = new Map<string, number>();

  /** `known`: up to which sequence an agent's events were read before. Default: none. */
  constructor(snapshots: Pick<SnapshotsShape, "bases">, known: (id: AgentId) => number = () => 0) {
    this.snapshots = snapshots;
    this.known = known;
  }

  /** What to read in the place of the agent's next event. Rejects with `BrokerUnavailable`. */
  async take<E extends StoredEvent>(id: AgentId, event: E): Promise<ReadonlyArray<Read<E>>> {
    const key = addressKey(id);
    const seq = this.seqs.get(key) ?? this.known(id);
    if (event.seq <= seq) return []; // rule 2
    const after = afterOf(event);
    this.seqs.set(key, event.seq);
    if (after <= seq) return [{ _tag: "Event", event }];
    const stored = await this.snapshots.bases(id);
    const base = stored && baseFor(id, stored, after);
    if (base === undefined) return [{ _tag: "Lost", event, after }];
    const found: Read<E> = { _tag: "Base", base, restarts: seq > 0 };
    if (base.head.seq < event.seq) return [found, { _tag: "Event", event }];
    this.seqs.set(key, base.head.seq);
    return [found];
  }
}

/** 0 for the first event, for one that does not say, and for one that can't be read. */
function afterOf({ data }: StoredEvent): number {
  try {
    return decodeEvent(data).head.after ?? 0;
  } catch (error) {
    if (error instanceof CorruptFrame || error instanceof UnknownVersion) return 0;
    throw error;
  }
}

/**
 * One agent's journal, up to `toSeq`. Rejects as `Journal.read`; with `CorruptFrame` for `Lost`.
 */
export async function* readFromBase(
  id: AgentId,
  { journal, snapshots }: Pick<Sources, "journal" | "snapshots">,
  toSeq?: StoredEvent["seq"],
): AsyncGenerator<Exclude<Read, { _tag: "Lost" }>, void, void> {
  const beginnings = new Beginnings(snapshots);
  const range = { fromSeq: 1 as StoredEvent["seq"], ...(toSeq === undefined ? {} : { toSeq }) };
  for await (const event of journal.read(id, range))
    for (const read of await beginnings.take(id, event)) {
      if (read._tag === "Lost")
        throw new CorruptFrame({
          message: `event ${event.seq} follows event ${read.after}, which was trimmed, and no base of it can be read`,
        });
      yield read;
    }
}

interface Sources {
  readonly journal: Pick<JournalShape, "read">;
  readonly snapshots: Pick<SnapshotsShape, "bases">;
}

/**
 * Where the journal begins, if it was trimmed: the error of who asks for what was before. Rejects
 * as `Journal.first`.
 */
export async function trimmedBefore(
  id: AgentId,
  journal: Pick<JournalShape, "first">,
): Promise<HistoryTrimmed | undefined> {
  const first = await journal.first(id);
  if (first === undefined) return undefined;
  const { after = 0, time } = decodeEvent(first.data).head;
  if (after === 0) return undefined;
  return new HistoryTrimmed({ id, seq: first.seq, after, timeMs: time });
}
