/** One webhook to each of so many agents, stored as gateways do; the wait until all are done. */
import type { InboxShape } from "../../core/inbox/Inbox.ts";
import { agentId } from "../../schemas/Address.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";

export async function touchAll(
  inbox: Pick<InboxShape, "publish">,
  options: {
    readonly className: string;
    /** The first agent's number. Default 0. */
    readonly first?: number;
    readonly agents: number;
    readonly atOnce: number;
    readonly timeoutMs: number;
    /** Unlike that of any other round. */
    readonly key: string;
  },
): Promise<void> {
  const { className, first = 0, agents, atOnce, timeoutMs, key } = options;
  let next = first;
  const signal = AbortSignal.timeout(timeoutMs);
  const lane = async (): Promise<void> => {
    for (let n = next++; n < first + agents; n = next++) {
      const head = { key: `${key}-${n}`, kind: "webhook", time: Date.now() } as const;
      const body = new TextEncoder().encode(`${key} of ${n}`);
      const input = encodeEnvelope({ ...head, method: "POST", url: "http://agent/" }, body);
      const result = await inbox.publish(agentId(className, `${n}`), input, { signal });
      if (result._tag !== "Stored") throw new Error(result.message);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}

/** Turns of inputs: each activation is a turn, too. */
export const inputsDone = async (host: AgentsProcess): Promise<number> =>
  (await host.metric("agents_turns_total")) - (await host.metric("agents_activations_total"));

/** `look`: at each poll. */
export const untilTaken = (
  host: AgentsProcess,
  turns: number,
  options: { readonly timeoutMs: number; readonly look?: () => Promise<void> },
): Promise<unknown> =>
  pollUntil(
    "every agent has taken its input",
    async () => {
      await options.look?.();
      const done = await inputsDone(host);
      return done >= turns || { done: false, saw: done };
    },
    { timeoutMs: options.timeoutMs, intervalMs: 100 },
  );
