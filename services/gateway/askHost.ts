/**
 * Asks an agent's host what does no harm when it is asked twice (a socket's messages, its close, what is to be known of
 * it), again and again until there is an answer. Core NATS may drop a request or its answer while gateway and host live:
 * then nothing else would tell. Fed by `ClientMessages` and `SocketTable`; while nobody owns the agent, and when its
 * owner changes, `CallClient` does the waiting within each try. What may have ended its host is counted over all of them.
 */
import {
  AgentUnreachable,
  CallLost,
  type CallClient,
  type CallOptions,
} from "../../core/call/CallClient.ts";
import { CallTries } from "../../core/call/CallTries.ts";
import type { AgentId } from "../../schemas/Address.ts";
import type { Call, CallReply } from "../../schemas/Call.ts";

/** A host that lives says something within milliseconds, unless its agent starts or its store is slow. */
export const HEARD_MS = 4_000;
/**
 * Each try's time. They double, since a host that is busy is not helped by the same again; two minutes in all, after
 * which the socket is given up.
 */
const TRIES_MS = [HEARD_MS, 8_000, 16_000, 32_000, 60_000] as const;

/** Rejects with `AgentUnreachable`, with `CallLost` at once, and with what `beforeRepeat` and the blob store do. */
export async function askHost(
  calls: Pick<CallClient, "call">,
  id: AgentId,
  call: Call,
  options: Pick<CallOptions, "body" | "tries" | "beforeRepeat"> = {},
): Promise<CallReply> {
  const tries = options.tries ?? new CallTries();
  let unreachable: AgentUnreachable | undefined;
  for (const deadlineMs of TRIES_MS)
    try {
      const how = { ...options, tries, deadlineMs, repeatable: true };
      return (await calls.call(id, call, how)).reply;
    } catch (error) {
      if (!(error instanceof AgentUnreachable) || error instanceof CallLost) throw error;
      unreachable = error;
    }
  throw unreachable!;
}
