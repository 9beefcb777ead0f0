/**
 * A base as an event that turns an empty agent into the one that the base describes. It replaces
 * the trimmed events where an agent is copied, so that files of `agents export` and backups contain
 * only events, which every release reads.
 *
 * Kept: state, pages, inputs done and begun, the entity. The done inputs' times are not: all count
 * from the base's.
 */
import { encodeEvent, type JournalHead, type TurnRecord } from "../../schemas/JournalEvent.ts";
import { pageDeltaBetween } from "../../schemas/PageDelta.ts";
import type { Snapshot } from "../../schemas/Snapshot.ts";

/** `type` of the turn's cause, for people. */
const BASE_TYPE = "history before this was trimmed";

/**
 * `restarts`: events that the base covers come before this one, which therefore first ends the life
 * that they made.
 */
export function eventOfBase({ head, image }: Snapshot, { restarts = false } = {}): Uint8Array {
  const first: TurnRecord = {
    cause: {
      kind: "background",
      type: BASE_TYPE,
      ...(head.entity === undefined ? {} : { entity: head.entity }),
    },
    ...("state" in head ? { state: { set: head.state } } : {}),
    ...(head.done.length === 0 ? {} : { done: head.done.map(([key]) => key) }),
  };
  const begun = head.begun.map(([key, attempt, seq]): TurnRecord => ({
    cause: { kind: "background", id: key, attempt, ...(seq === 0 ? {} : { seq }) },
    begun: true,
  }));
  const event: JournalHead = {
    id: `base-${head.seq}`,
    agent: head.agent,
    kind: restarts ? "destroyed" : "turns",
    host: "base",
    epoch: head.epoch,
    time: head.time,
    turns: [first, ...begun],
    // The agent may have schedules, whose timers a copy must arm (`agents restore`).
    schedules: {},
    ...(head.pages === 0 ? {} : { pages: head.pages }),
  };
  return head.pages === 0
    ? encodeEvent(event)
    : encodeEvent(event, pageDeltaBetween(new Uint8Array(0), image));
}
