/**
 * An agent's past webhooks as events that can be run again (`Rerun`): what it was before each, what
 * came in, and what it was after. `webhookRuns` finds them. Feeds `agents rerun`.
 *
 * 1. One pass over the journal: the agent is rebuilt before the first, and each event applied to
 *    it.
 * 2. An event that can't be run again is given all the same, and why.
 */
import type { AgentImage } from "../journal/AgentImage.ts";
import type { JournalShape } from "../journal/Journal.ts";
import type { PastEvent } from "./Rerun.ts";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { InboxEnvelope } from "../../schemas/InboxEnvelope.ts";
import {
  decodeEvent,
  encodeEvent,
  type Cause,
  type JournalHead,
} from "../../schemas/JournalEvent.ts";
import type { WebhookRun } from "./webhookRuns.ts";
import { rebuildAgent, replayEvent, type RebuildSources } from "../journal/rebuildAgent.ts";

export interface Moment {
  /** Undefined: unset. */
  readonly state: unknown;
  /** Its database, as `AgentDatabase.image` returns it. */
  readonly image: Uint8Array;
}

export interface PastWebhooks extends WebhookRun {
  readonly timeMs: number;
  readonly past: PastEvent;
  readonly before: Moment;
  readonly after: Moment;
}

/** A moment, and what a journal in another place begins with there. */
interface Begin {
  readonly moment: Moment;
  readonly stored: PastEvent["before"];
}

/** `runs`: in order. Rejects as `rebuildAgent`. */
export async function* pastWebhooks(
  id: AgentId,
  runs: ReadonlyArray<WebhookRun>,
  sources: Pick<RebuildSources, "journal" | "snapshots" | "databases">,
): AsyncGenerator<PastWebhooks> {
  if (runs.length === 0) return;
  const { journal } = sources;
  const wanted = new Map(runs.map((run) => [run.seq, run]));
  const uses = new Map<number, number>();
  for (const { fromSeq } of runs) uses.set(fromSeq, (uses.get(fromSeq) ?? 0) + 1);
  const first = Math.min(...uses.keys());
  const { image, database } = await rebuildAgent(id, { ...sources, atSeq: first - 1 });
  const moment = (): Moment => ({
    state: image.state === undefined ? undefined : (JSON.parse(image.state) as unknown),
    image: database.image(),
  });
  const begins = new Map<number, Begin>();
  try {
    let event = await eventAt(journal, image);
    const range = { fromSeq: (image.seq + 1) as Sequence, toSeq: runs.at(-1)!.seq as Sequence };
    for await (const { seq, data } of journal.read(id, range)) {
      const stored = decodeEvent(data);
      const { head } = stored;
      if (uses.has(seq)) {
        const before = moment();
        const snapshot = event && { event, snapshot: image.encode(before.image) };
        begins.set(seq, { moment: before, stored: snapshot });
      }
      replayEvent(image, database, seq, stored);
      event = head.kind === "destroyed" ? undefined : data;
      const run = wanted.get(seq);
      if (run === undefined) continue;
      const { moment: before, stored: planted } = begins.get(run.fromSeq)!;
      const left = uses.get(run.fromSeq)! - 1;
      uses.set(run.fromSeq, left);
      if (left === 0) begins.delete(run.fromSeq);
      const inputs = run.causes.map((cause) => envelopeOf(cause, head));
      const past = { id, before: planted, inputs };
      yield { ...run, timeMs: head.time, past, before, after: moment() };
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
