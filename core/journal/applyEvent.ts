/**
 * Applies one journal event to an agent's image: the one function that does, live (after its append
 * was stored) and in replay. The page delta is applied beside it, to the database, by the caller.
 */
import { CorruptFrame } from "../../schemas/Frame.ts";
import type { JournalHead, TurnRecord } from "../../schemas/JournalEvent.ts";
import type { Epoch, Sequence } from "../../schemas/Address.ts";
import { isOfSent } from "./laneKeys.ts";
import { withEntry, without } from "../collections/sparse.ts";
import { slugOf } from "../webhook/sluggedEntity.ts";
import type { AgentImage } from "./AgentImage.ts";
import { OpenParts } from "./OpenParts.ts";
import { applyState, type StateText } from "./stateChange.ts";

/**
 * Throws `CorruptFrame` when the event can't follow: another agent's, or an epoch that goes back
 * (invariant I3). `seq` must be larger than the image's. `known`: the state that the event leads
 * to, for a head without its changes (`encodeCommit`).
 */
export function applyEvent(
  image: AgentImage,
  seq: Sequence,
  head: JournalHead,
  known?: StateText,
): void {
  const [className, name] = head.agent;
  if (className !== image.id.class || name !== image.id.name)
    throw new CorruptFrame({ message: `event ${seq} belongs to ${className}/${name}` });
  if (seq <= image.seq)
    throw new CorruptFrame({ message: `event ${seq} comes after event ${image.seq}` });
  if (head.epoch < image.epoch)
    throw new CorruptFrame({
      message: `event ${seq} has epoch ${head.epoch}, after epoch ${image.epoch}`,
    });
  if (head.kind === "destroyed") {
    image.state = undefined;
    forgetJobs(image);
    image.pages = 0;
    image.life = seq;
    image.entity = undefined;
  }
  for (const turn of head.turns) {
    if (turn.state !== undefined)
      setState(image, { text: applyState(image.state, turn.state), isExact: true });
    if (turn.restored !== undefined) forgetJobs(image, isOfSent);
    // The input that ended the agent's life does not count, but a base that begins a life anew does
    // (`eventOfBase`). In a fork, entities of the history do not match the fork's name.
    const { entity, kind } = turn.cause;
    if (entity !== undefined && image.entity === undefined)
      if (head.kind !== "destroyed" || kind === "background")
        if (slugOf(entity) === name) image.entity = entity;
    const key = turn.cause.id;
    if (key !== undefined && turn.begun === true) begin(image, key, turn);
    else if (key !== undefined) forget(image, key);
    // A job is done when its row says so; its keys would only push those of webhooks out of the
    // set.
    if (turn.cause.kind !== "schedule" && turn.cause.kind !== "queue")
      for (const done of turn.done ?? []) image.done.add(done, head.time, seq);
  }
  if (known !== undefined) setState(image, known);
  if (head.pages !== undefined) image.pages = head.pages;
  image.parts = OpenParts.after(image.parts, seq, head);
  image.done.trim(head.time);
  image.seq = seq;
  image.epoch = head.epoch as Epoch;
  image.timeMs = head.time;
}

function setState(image: AgentImage, { text, isExact }: StateText): void {
  image.state = text;
  image.stateIsExact = isExact;
}

/** The input continues. A run that completed a step made progress: a host's end is not counted. */
function begin(image: AgentImage, key: string, record: TurnRecord): void {
  const { cause, steps, again = [], error } = record;
  const { attempt = 1, seq = 0 } = cause;
  const attempts = steps === undefined || error !== undefined ? attempt : attempt - 1;
  image.begun.set(key, { attempts, inboxSeq: seq });
  let done = image.steps?.get(key);
  if (steps !== undefined) {
    done ??= new Map<string, string | undefined>();
    image.steps = withEntry(image.steps, key, done);
    for (const step of steps)
      done.set(step.key, step.result === undefined ? undefined : JSON.stringify(step.result));
  }
  for (const step of again) done?.delete(step.key);
}

/**
 * Forgets begun jobs, whose rows are gone, or are those of an earlier point; `stays`: not these.
 * Inputs stay stored, and the attempts that they have spent still count.
 */
function forgetJobs(image: AgentImage, stays: (key: string) => boolean = () => false): void {
  for (const [key, { inboxSeq }] of image.begun)
    if (inboxSeq === 0 && !stays(key)) forget(image, key);
}

/** The input is done or dead. */
function forget(image: AgentImage, key: string): void {
  image.begun.delete(key);
  image.steps = without(image.steps, key);
}
