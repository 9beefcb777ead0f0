/**
 * A base as an event that turns an empty agent into the one that the base describes. It replaces
 * the trimmed events where an agent is copied, so that files of `agents export` and backups contain
 * only events, which every release reads.
 *
 * Kept: state, pages, inputs done and begun, results of steps, the entity. The done inputs' times
 * are not: all count from the base's. Bases have no open parts (`trimAgent`, rule 4).
 */
import { encodeEvent, type JournalHead, type TurnRecord } from "../../schemas/JournalEvent.ts";
import { pageDeltaBetween } from "../../schemas/PageDelta.ts";
import type { Snapshot } from "../../schemas/Snapshot.ts";

/** In place of the name of a host. */
const HOST = "base";
/** `type` of the turn's cause, for people. */
const BASE_TYPE = "history before this was trimmed";

/** `restarts`: the base covers events that come before, so it first ends the life they made. */
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
  // Splices of later events need the very text, which `set` can't always contain.
  const exact: TurnRecord[] =
    head.stateText === undefined
      ? []
      : [{ cause: first.cause, state: { splice: [0, 0, head.stateText] } }];
  const stepsOf = new Map(head.steps);
  const begun = head.begun.map(([key, attempts, seq]): TurnRecord => {
    const steps = stepsOf.get(key)?.map(([step, ...result]) => ({
      key: String(step),
      ...(result.length === 0 ? {} : { result: result[0] }),
    }));
    // A run that has completed a step is not counted (`applyEvent`).
    const attempt = steps === undefined ? attempts : attempts + 1;
    return {
      cause: { kind: "background", id: key, attempt, ...(seq === 0 ? {} : { seq }) },
      begun: true,
      ...(steps === undefined ? {} : { steps }),
    };
  });
  const event: JournalHead = {
    id: `base-${head.seq}`,
    agent: head.agent,
    kind: restarts ? "destroyed" : "turns",
    host: HOST,
    epoch: head.epoch,
    time: head.time,
    turns: [first, ...exact, ...begun],
    // The agent may have schedules, whose timers a copy must arm (`agents restore`).
    schedules: {},
    ...(head.pages === 0 ? {} : { pages: head.pages }),
  };
  return head.pages === 0
    ? encodeEvent(event)
    : encodeEvent(event, pageDeltaBetween(new Uint8Array(0), image));
}

/** Whether it is a base whose events come after others of the agent, which it makes void. */
export const restartsLife = ({ kind, host }: JournalHead): boolean =>
  kind === "destroyed" && host === HOST;
