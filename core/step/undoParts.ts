/**
 * The event that undoes the parts at a journal's end (`OpenParts`): after it, the agent is as it
 * was before the first of them. `activate` appends it before any code of the agent runs, and the
 * inputs of the undone turns run again from their start. Results of their steps are kept, and so is
 * what others already know: chunks of durable streams and kept broadcasts, which clients have
 * received, and the list of sub-agents.
 *
 * It is an event like any other: a change of state and a page delta, which every release can read.
 */
import { encodeEvent, type JournalHead, type TurnRecord } from "../../schemas/JournalEvent.ts";
import { pageCount, pageDeltaBetween } from "../../schemas/PageDelta.ts";
import type { Epoch, Sequence } from "../../schemas/Address.ts";
import type { AgentDatabase } from "../database/Databases.ts";
import { withoutTriggers } from "../database/withoutTriggers.ts";
import type { TimeShape } from "../time/Time.ts";
import type { AgentImage } from "../journal/AgentImage.ts";
import type { OpenParts } from "../journal/OpenParts.ts";
import { rebuildAgent, type RebuildSources } from "../journal/rebuildAgent.ts";
import { copyAlarm } from "../stream/ExpiryAlarm.ts";
import { copyKeptMessages } from "../stream/KeptMessages.ts";
import { copyStreams } from "../stream/StreamTable.ts";
import { copySubAgents } from "../subAgent/SubAgentTable.ts";
import { restoredRows } from "./restoredRows.ts";
import { diffState } from "../journal/stateChange.ts";

interface Undoing {
  readonly head: JournalHead;
  readonly delta: Uint8Array;
  /** The event's frame. */
  readonly data: Uint8Array;
}

export interface UndoOptions {
  readonly image: AgentImage;
  readonly database: AgentDatabase;
  readonly parts: OpenParts;
  readonly sources: Pick<RebuildSources, "journal" | "databases" | "snapshots">;
  readonly host: string;
  readonly epoch: Epoch;
  readonly time: Pick<TimeShape, "id" | "nowMs">;
}

/** Rejects with `BrokerUnavailable` or `CorruptFrame`. */
export async function undoParts(options: UndoOptions): Promise<Undoing> {
  const { image, database, parts, sources, host, epoch, time } = options;
  const past = await rebuildAgent(image.id, { ...sources, atSeq: parts.since - 1 });
  try {
    const now = database.image();
    keepShared(image, { now, past: past.database }, sources.databases);
    const before = past.database.image();
    const changed = before.length + now.length > 0;
    const delta = changed ? pageDeltaBetween(now, before) : new Uint8Array(0);
    const rows = await restoredRows(image, parts, sources.journal, past.database);
    const turns = [...parts.turns].map(([id, kind]): TurnRecord => {
      const { attempts = 1, inboxSeq = 0 } = image.begun.get(id) ?? {};
      const cause = { kind, id, ...(inboxSeq === 0 ? {} : { seq: inboxSeq }), attempt: attempts };
      return { cause, begun: true, undone: true };
    });
    const [first, ...others] = turns;
    const state = JSON.parse(
      diffState(image.state, past.image.state, image.stateIsExact),
    ) as TurnRecord["state"];
    const isSame = image.state === past.image.state;
    const head: JournalHead = {
      id: time.id(),
      agent: [image.id.class, image.id.name],
      kind: "turns",
      host,
      epoch,
      time: time.nowMs(),
      turns: isSame || state === undefined ? turns : [{ ...first!, state }, ...others],
      after: image.seq as Sequence,
      ...(changed ? { pages: pageCount(before) } : {}),
      ...rows,
    };
    return { head, delta, data: encodeEvent(head, delta) };
  } finally {
    past.database.close();
  }
}

/** Puts what others know of the present image into the past database. */
function keepShared(
  { id }: AgentImage,
  { now, past }: { readonly now: Uint8Array; readonly past: AgentDatabase },
  databases: UndoOptions["sources"]["databases"],
): void {
  if (now.length === 0) return;
  const { database } = databases.open(id);
  try {
    database.restore(now);
    withoutTriggers(past, () => {
      copyStreams(database, past);
      copyKeptMessages(database, past);
      copyAlarm(database, past);
      copySubAgents(database, past);
    });
    if (past.freeze() !== undefined) past.committed();
  } finally {
    database.close();
  }
}
