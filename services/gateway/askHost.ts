/**
 * Sends an idempotent call (a socket's message, its close, its details) to an agent's host and
 * repeats it until there is an answer. Core NATS may drop a request or its answer while gateway and
 * host are alive, which only a repetition detects. `ClientMessages` and `SocketTable` use it.
 * Within each try, `CallClient` waits while the agent has no owner and when its owner changes.
 * Hosts that the call may have crashed are counted over all tries.
 */
import { AgentUnreachable, CallLost } from "../../core/call/AgentUnreachable.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import type { CallOptions } from "../../core/call/RepeatedCall.ts";
import { CallTries } from "../../core/call/CallTries.ts";
import type { AgentId } from "../../schemas/Address.ts";
import type { Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";

/** A live host answers within milliseconds, unless its agent starts or its store is slow. */
export const ANSWER_TIMEOUT_MS = 4_000;
/**
 * The timeout of each try. Timeouts double, because repeating sooner does not help a busy host.
 * After the last one, two minutes in total, the socket is given up.
 */
const TRIES_MS = [ANSWER_TIMEOUT_MS, 8_000, 16_000, 32_000, 60_000] as const;

/**
 * Rejects with `AgentUnreachable` after the last try, with `CallLost` at once, and with what
 * `beforeRepeat` and the blob store reject with.
 */
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
