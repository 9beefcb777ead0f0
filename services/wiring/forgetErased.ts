/**
 * Checks a host's local cache when the host starts, and removes files of agents that were erased
 * while it was away. The agents are checked one at a time with pauses, because each check is a
 * request to the broker. Used by `joinProcess`. While the host runs, `services/host/serveErasures`
 * receives erasures.
 */
import type { DatabasesShape } from "../../core/database/Databases.ts";
import type { JournalShape } from "../../core/journal/Journal.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { bareEnd } from "../../core/journal/endLife.ts";
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import { sleep } from "../../core/time/sleep.ts";

/** 100,000 files take a quarter of an hour, at no noticeable load for the broker. */
const PAUSE_MS = 10;

interface ForgetErasedPorts {
  readonly journal: Pick<JournalShape, "last">;
  readonly databases: Pick<DatabasesShape, "discard">;
  readonly time: Pick<TimeShape, "after">;
  readonly log: Pick<LogShape, "info" | "warn">;
}

/** Resolves when all is checked or `signal` fires. Never rejects: the next start finds the rest. */
export async function forgetErased(
  { journal, databases, time, log }: ForgetErasedPorts,
  cached: AsyncIterable<AgentId>,
  signal: AbortSignal,
): Promise<void> {
  try {
    for await (const id of cached) {
      if (signal.aborted) return;
      const last = await journal.last(id);
      if (last !== undefined && bareEnd(last) !== undefined) {
        // Throws when the agent lives here again: the files then belong to its new life.
        databases.discard(id);
        log.info("local files of an erased agent were removed", { agent: addressKey(id) });
      }
      await sleep(time, PAUSE_MS);
    }
  } catch (error) {
    if (!signal.aborted)
      log.warn("local files could not all be searched for erased agents", { error: String(error) });
  }
}
