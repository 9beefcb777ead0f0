/**
 * An agent's past webhooks as events that can be run again (`Rerun`): the agent before each, the
 * input, the results of steps, and the agent after it. Feeds `agents rerun`.
 *
 * 1. One pass over the journal: the agent is rebuilt before the first, and each event applied to
 *    it.
 * 2. Of a turn with several events or attempts, the last run counts (`pastTurns`), on the agent as
 *    it was when that run began to write.
 * 3. An event that can't be run again is returned with the reason: the journal keeps no body of a
 *    request, call or frame that shares the commit, and what other turns wrote meanwhile does not
 *    belong to the turn.
 */
import { defined } from "../collections/defined.ts";
import { fromBase64 } from "../../schemas/base64.ts";
import type { AgentImage } from "../journal/AgentImage.ts";
import { readOn } from "../journal/Beginnings.ts";
import { endsLife } from "../journal/endLife.ts";
import type { JournalShape } from "../journal/Journal.ts";
import type { PastEvent, PastInput } from "./Rerun.ts";
import type { AgentId } from "../../schemas/Address.ts";
import type { InboxEnvelope } from "../../schemas/InboxEnvelope.ts";
import {
  decodeEvent,
  encodeEvent,
  type Cause,
  type JournalHead,
} from "../../schemas/JournalEvent.ts";
import { isOver, isWebhook, type PastEnd, type PastTurn } from "./pastTurns.ts";
import {
  rebuildAgent,
  replayEvent,
  type Rebuilt,
  type RebuildSources,
} from "../journal/rebuildAgent.ts";

interface Moment {
  /** Undefined: unset. */
  readonly state: unknown;
  /** Its database, as `AgentDatabase.image` returns it. */
  readonly image: Uint8Array;
}

export interface PastWebhooks {
  readonly seq: number;
  readonly head: JournalHead;
  /** What began the turns that are to run again. */
  readonly causes: ReadonlyArray<Cause>;
  /** Rule 3; undefined: it can be run again. */
  readonly obstacle: string | undefined;
  readonly past: PastEvent;
  readonly before: Moment;
  readonly after: Moment;
}

interface Beginning {
  readonly before: Moment;
  readonly snapshot: PastEvent["before"];
}

/** `ends`: ascending. Rejects as `rebuildAgent` and `readOn`. */
export async function* pastWebhooks(
  id: AgentId,
  ends: ReadonlyArray<PastEnd>,
  sources: Pick<RebuildSources, "journal" | "snapshots" | "databases">,
): AsyncGenerator<PastWebhooks> {
  if (ends.length === 0) return;
  const { journal } = sources;
  const wanted = new Map(ends.map((end) => [end.seq, end]));
  const begun = new Map<number, Beginning | undefined>(ends.map(({ from }) => [from, undefined]));
  const first = ends.reduce((least, { from }) => Math.min(least, from), Infinity);
  const { image, database } = await rebuildAgent(id, { ...sources, atSeq: first - 1 });
  const moment = (): Moment => ({
    state: image.state === undefined ? undefined : (JSON.parse(image.state) as unknown),
    image: database.image(),
  });
  try {
    let event = await eventAt(journal, image);
    for await (const { seq, data, event: stored } of readOn(image, ends.at(-1)!.seq, journal)) {
      const { head } = stored;
      if (begun.has(seq)) {
        const before = moment();
        const snapshot = event && { event, snapshot: image.encode(before.image) };
        begun.set(seq, { before, snapshot });
      }
      replayEvent(image, database, seq, stored);
      event = endsLife(head) ? undefined : data;
      const end = wanted.get(seq);
      if (end === undefined) continue;
      const { before, snapshot } = begun.get(end.from)!;
      const turns = [...end.turns.values()];
      yield {
        seq,
        head,
        causes: turns.map(({ cause }) => cause),
        obstacle: obstacleOf(head, end),
        past: { id, before: snapshot, inputs: turns.map((turn) => inputOf(turn, head)) },
        before,
        after: moment(),
      };
    }
  } finally {
    database.close();
  }
}

/** An agent as inputs begin with it (`PastEvent.before`). */
export async function beginningOf(
  journal: JournalShape,
  { image, database }: Pick<Rebuilt, "image" | "database">,
): Promise<PastEvent["before"]> {
  const event = await eventAt(journal, image);
  return event && { event, snapshot: image.encode(database.image()) };
}

/** The event that a copied journal has to end with; undefined: the agent did not exist then. */
async function eventAt(
  journal: JournalShape,
  { id, seq, epoch, timeMs }: AgentImage,
): Promise<Uint8Array | undefined> {
  if (seq === 0) return undefined;
  for await (const { data } of journal.read(id, { fromSeq: seq, toSeq: seq }))
    return endsLife(decodeEvent(data).head) ? undefined : data;
  // It was trimmed. Its changes are in the snapshot, so an event without changes replaces it.
  const agent = [id.class, id.name] as const;
  return encodeEvent({ id: `base-${seq}`, agent, kind: "claimed", host: "", epoch, time: timeMs, turns: [] }); // prettier-ignore
}

/** Rule 3. */
function obstacleOf({ turns }: JournalHead, { others }: PastEnd): string | undefined {
  for (const turn of turns) {
    const { kind } = turn.cause;
    if (kind === "start" || (isWebhook(turn) && isOver(turn))) continue;
    // Results of a continuing turn's step change nothing.
    if (isWebhook(turn) && turn.state === undefined && turn.sql === undefined) continue;
    return `it shares its commit with a ${kind}${isWebhook(turn) ? " that continued" : ""}`;
  }
  return others.length === 0 ? undefined : `a ${others[0]} wrote while it ran`;
}

const inputOf = ({ cause, attempts, steps }: PastTurn, head: JournalHead): PastInput => ({
  ...envelopeOf(cause, head),
  attempts,
  steps,
});

/** The input that an event keeps in full, with the bytes of its body. */
export function envelopeOf(cause: Cause, { time }: Pick<JournalHead, "time">): InboxEnvelope {
  const { provider, route, verified, type, method, url, headers, entity, body, bodyBase64 } = cause;
  const bytes =
    bodyBase64 === undefined ? new TextEncoder().encode(body ?? "") : fromBase64(bodyBase64);
  return {
    head: {
      key: cause.id!,
      kind: "webhook",
      time: cause.time ?? time,
      ...defined({ provider, route, verified, type, method, url, headers, entity }),
    },
    body: bytes,
  };
}
