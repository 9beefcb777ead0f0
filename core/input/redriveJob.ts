/**
 * Puts a job from the dead letters back in its place: at the end of its queue, or as a schedule
 * that is due now. The redrive is a separate turn, whose input is the operator's. The job then
 * runs, retries and dies like any other of its kind. `Mailbox` runs it.
 *
 * 1. The job has the retry policy that it had, and an item its id, unless another item with that id
 *    waits: that one is newer.
 * 2. Its steps have the idempotency keys of the dead job, because what they did still holds. Where
 *    they were undone, they have others.
 */
import type { InboxEnvelope } from "../../schemas/InboxEnvelope.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import type { QueueLane } from "../queue/QueueLane.ts";
import { redrivenScheduleId, redrivenUid } from "../queue/redrivenKey.ts";
import type { Scheduler } from "../schedule/Scheduler.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";

/** The agent that a job goes back to. */
export interface RedriveAgent extends Pick<AgentTurns, "time"> {
  readonly scheduler: Pick<Scheduler, "add">;
  readonly queue: QueueLane;
  readonly lanes: { laneOf(key: string): QueueLane };
}

/** Throws for a callback that is gone and for a payload that is not JSON. */
export function redriveJob(agent: RedriveAgent, { head, body }: InboxEnvelope): void {
  const { job, type: callback, redrive: undone } = head;
  if (job === undefined || callback === undefined)
    throw new CorruptFrame({ message: "a redrive without its job" });
  const payload = readPayload(body);
  const retry = job.retry === undefined ? {} : { retry: job.retry };
  const letter = Number(/\d+$/.exec(head.key)?.[0] ?? 0);
  if (job.kind === "schedule") {
    const settings = { idempotent: false, ...retry, ...(payload === undefined ? {} : { payload }) };
    const when = { type: "scheduled", atMs: agent.time.nowMs() } as const;
    // Rule 2.
    const id = undone === undefined ? redrivenScheduleId(job.key, letter) : undefined;
    agent.scheduler.add({ callback, when, settings, shape: "interface" }, id);
    return;
  }
  const lane = agent.lanes.laneOf(job.key);
  // With the same id, so that the receiver recognizes the webhook or mail.
  if (lane !== agent.queue) {
    const { id } = payload as { readonly id: string };
    return void lane.push(callback, payload, { ...retry, id });
  }
  const { id } = job;
  const isFree = id !== undefined && lane.get(id) === undefined;
  const uid = undone === undefined ? redrivenUid(job.key, letter) : undefined;
  lane.push(callback, payload, { ...retry, ...(isFree && { id }) }, uid);
}

const readPayload = (body: Uint8Array): unknown =>
  body.length === 0 ? undefined : (JSON.parse(new TextDecoder().decode(body)) as unknown);
