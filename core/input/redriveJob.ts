/**
 * Puts a job from the dead letters back in its place: at the end of its queue, or as a schedule
 * that is due now. The redrive is a separate turn, whose input is the operator's. The job then
 * runs, retries and dies like any other of its kind. `Mailbox` runs it.
 */
import type { InboxEnvelope } from "../../schemas/InboxEnvelope.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import type { QueueLane } from "../queue/QueueLane.ts";
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
  const { job, type: callback } = head;
  if (job === undefined || callback === undefined)
    throw new CorruptFrame({ message: "a redrive without its job" });
  const payload = readPayload(body);
  if (job.kind === "schedule") {
    const settings = { idempotent: false, ...(payload === undefined ? {} : { payload }) };
    const when = { type: "scheduled", atMs: agent.time.nowMs() } as const;
    agent.scheduler.add({ callback, when, settings, shape: "interface" });
    return;
  }
  const lane = agent.lanes.laneOf(job.key);
  if (lane === agent.queue) lane.push(callback, payload, {});
  // With the same id, so that the receiver recognizes the webhook or mail.
  else lane.push(callback, payload, { id: (payload as { readonly id: string }).id });
}

const readPayload = (body: Uint8Array): unknown =>
  body.length === 0 ? undefined : (JSON.parse(new TextDecoder().decode(body)) as unknown);
