/**
 * What waits for a quarantined agent, as inputs that can run on a fork (`onFork`): its stored
 * webhooks, mail and signals, its queue items, and its schedules that are due. Triggers are left
 * out, because the agent's tables have their jobs. Used by `agents release --on-fork`.
 */
import { waitingJobs, type WaitingJob } from "../../../core/history/waitingJobs.ts";
import { rebuildAgent, type Rebuilt } from "../../../core/journal/rebuildAgent.ts";
import { addressKey, type AgentId } from "../../../schemas/Address.ts";
import { ifReadable } from "../../../schemas/Frame.ts";
import { decodeEnvelope, type InboxEnvelope } from "../../../schemas/InboxEnvelope.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import type { Terminal } from "../terminal/Terminal.ts";
import type { ForkInput } from "./onFork.ts";

/**
 * Resolves to the inputs in stored order, and then the jobs. Notes on the terminal what can't be
 * read, which the host will make a dead letter.
 */
export async function waitingInputs(
  ports: Pick<ReadPorts, "journal" | "snapshots" | "databases" | "stored">,
  terminal: Pick<Terminal, "err">,
  id: AgentId,
  nowMs: number,
): Promise<ReadonlyArray<ForkInput>> {
  const agent = await rebuildAgent(id, ports);
  try {
    const found: ForkInput[] = [];
    for await (const one of ports.stored("inputs")) {
      if (addressKey(one.id) !== addressKey(id)) continue;
      const envelope = ifReadable(() => decodeEnvelope(one.data));
      if (envelope === undefined)
        terminal.err(
          `An input of ${addressKey(id)} can't be read: its agent can't run it, either.`,
        );
      else if (isLeft(agent, envelope)) {
        const { key, job } = envelope.head;
        found.push({ label: key, id, envelope, ranAs: job?.key ?? key });
      }
    }
    for (const job of waitingJobs(agent.database, nowMs)) found.push(jobInput(id, job, nowMs));
    return found;
  } finally {
    agent.database.close();
  }
}

/** Whether it is an input of its own, and the agent has not done it. */
const isLeft = ({ image }: Rebuilt, { head: { kind, key, alsoKeys } }: InboxEnvelope): boolean =>
  kind !== "queue" && kind !== "schedule" && image.done.seqOfAny(key, alsoKeys) === undefined;

/** A job as the redrive that puts it where it is. */
const jobInput = (
  id: AgentId,
  { kind, key, callback, payload }: WaitingJob,
  time: number,
): ForkInput => ({
  label: key,
  id,
  ranAs: key,
  envelope: {
    head: { kind: "redrive", key: `fork:${key}`, job: { kind, key }, type: callback, time },
    body: new TextEncoder().encode(payload ?? ""),
  },
});
