/**
 * An agent's past webhooks as events that can be run again (`Rerun`): what it was before each, what
 * came in, and what it was after. Feeds `agents rerun`.
 *
 * 1. One pass over the journal: the agent is rebuilt before the first, and each event applied to
 *    it.
 * 2. An event that can't be run again is given all the same, and why: a turn that committed in
 *    parts, or was tried again, has no state of its own; and of a request, a call or a frame that
 *    shares the commit the journal keeps no body.
 */
import type { AgentImage } from "./AgentImage.ts";
import type { JournalShape } from "./Journal.ts";
import type { PastEvent } from "./Rerun.ts";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { InboxEnvelope } from "../../schemas/InboxEnvelope.ts";
import {
  decodeEvent,
  encodeEvent,
  type Cause,
  type JournalHead,
} from "../../schemas/JournalEvent.ts";
import { rebuildAgent, replayEvent, type RebuildSources } from "./rebuildAgent.ts";

export interface Moment {
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
  /** Rule 2; undefined: it can be run again. */
  readonly obstacle: string | undefined;
  readonly past: PastEvent;
  readonly before: Moment;
  readonly after: Moment;
}

export const isWebhook = ({ cause }: { readonly cause: Cause }): boolean =>
  cause.kind === "webhook";

/** `seqs`: of events that hold a webhook's turn, ascending. Rejects as `rebuildAgent`. */
export async function* pastWebhooks(
  id: AgentId,
  seqs: ReadonlyArray<number>,
  sources: Pick<RebuildSources, "journal" | "snapshots" | "databases">,
): AsyncGenerator<PastWebhooks> {
  if (seqs.length === 0) return;
  const { journal } = sources;
  const wanted = new Set(seqs);
  const { image, database } = await rebuildAgent(id, { ...sources, atSeq: seqs[0]! - 1 });
  const moment = (): Moment => ({
    state: image.state === undefined ? undefined : (JSON.parse(image.state) as unknown),
    image: database.image(),
  });
  try {
    let event = await eventAt(journal, image);
    const range = { fromSeq: (image.seq + 1) as Sequence, toSeq: seqs.at(-1) as Sequence };
    for await (const { seq, data } of journal.read(id, range)) {
      const stored = decodeEvent(data);
      const { head } = stored;
      const isWanted = wanted.has(seq);
      const before = isWanted ? moment() : undefined;
      const snapshot = before && event && { event, snapshot: image.encode(before.image) };
      const obstacle = isWanted ? obstacleOf(head, image.begun) : undefined;
      replayEvent(image, database, seq, stored);
      event = head.kind === "destroyed" ? undefined : data;
      if (before === undefined) continue;
      const causes = head.turns.filter(isWebhook).map(({ cause }) => cause);
      const inputs = causes.map((cause) => envelopeOf(cause, head));
      const past = { id, before: snapshot, inputs };
      yield { seq, head, causes, obstacle, past, before, after: moment() };
    }
  } finally {
    database.close();
  }
}

/**
 * The event that a journal in another place has to end with; undefined: the agent had ended, or was
 * not yet.
 */
async function eventAt(
  journal: JournalShape,
  { id, seq, epoch, timeMs }: AgentImage,
): Promise<Uint8Array | undefined> {
  if (seq === 0) return undefined;
  for await (const { data } of journal.read(id, { fromSeq: seq, toSeq: seq }))
    return decodeEvent(data).head.kind === "destroyed" ? undefined : data;
  // It was trimmed. What it made is in the snapshot, so one that changes nothing takes its place.
  const agent = [id.class, id.name] as const;
  return encodeEvent({ id: `base-${seq}`, agent, kind: "claimed", host: "", epoch, time: timeMs, turns: [] }); // prettier-ignore
}

/** Rule 2. */
function obstacleOf(
  { turns }: JournalHead,
  begun: { readonly has: (key: string) => boolean },
): string | undefined {
  for (const { cause, done = [], dead, begun: goesOn } of turns) {
    if (cause.kind === "start") continue;
    if (cause.kind !== "webhook") return `it shares its commit with a ${cause.kind}`;
    const key = cause.id;
    const ends = key !== undefined && (done.includes(key) || dead === true);
    if (goesOn === true || !ends || begun.has(key))
      return "its turn committed in parts, or was tried again";
  }
  return undefined;
}

/** The input that an event keeps in full, with the bytes of its body. */
export function envelopeOf(cause: Cause, { time }: Pick<JournalHead, "time">): InboxEnvelope {
  const { provider, route, verified, type, method, url, headers, entity, body, bodyBase64 } = cause;
  const bytes =
    bodyBase64 === undefined
      ? new TextEncoder().encode(body ?? "")
      : Uint8Array.from(atob(bodyBase64), (char) => char.charCodeAt(0));
  return {
    head: {
      key: cause.id!,
      kind: "webhook",
      time: cause.time ?? time,
      ...(provider === undefined ? {} : { provider }),
      ...(route === undefined ? {} : { route }),
      ...(verified === undefined ? {} : { verified }),
      ...(type === undefined ? {} : { type }),
      ...(method === undefined ? {} : { method }),
      ...(url === undefined ? {} : { url }),
      ...(headers === undefined ? {} : { headers }),
      ...(entity === undefined ? {} : { entity }),
    },
    body: bytes,
  };
}
