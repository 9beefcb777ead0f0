/**
 * A host's look through its local cache at its start: files of agents that were erased while it was away are removed.
 * One agent at a time and in no hurry, for each is a question to the broker. Used by `joinProcess`; what is erased
 * while the host runs is told to it (`services/host/serveErasures`).
 */
import type { DatabasesShape } from "../../core/database/Databases.ts";
import type { JournalShape } from "../../core/journal/Journal.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { bareEnd } from "../../core/journal/endLife.ts";
import { addressKey, type AgentId } from "../../schemas/Address.ts";

/** 100,000 files take a quarter of an hour, and the broker does not notice. */
const PAUSE_MS = 10;

export interface ForgetErasedPorts {
  readonly journal: Pick<JournalShape, "last">;
  readonly databases: Pick<DatabasesShape, "discard">;
  readonly time: Pick<TimeShape, "after">;
  readonly log: Pick<LogShape, "info" | "warn">;
}

/** Resolves when all were looked at, or `signal` fires. Never rejects: what it misses is found at the next start. */
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
        // Throws when it lives here again: then its files are of its new life.
        databases.discard(id);
        log.info("local files of an agent that was erased are removed", { agent: addressKey(id) });
      }
      await new Promise<void>((resolve) => time.after(PAUSE_MS, resolve));
    }
  } catch (error) {
    if (!signal.aborted)
      log.warn("local files could not all be looked through for erased agents", {
        error: String(error),
      });
  }
}
