/**
 * The reference's questions about errors of its platform, asked of those that this system has. An
 * error is known by its name, which crosses calls between hosts, anywhere in its chain of causes.
 */

/** The agent, or its host, was lost; the same work succeeds later, elsewhere. */
const MOVED = new Set(["AgentDiscarded", "CallInterrupted", "CallEndedProcess"]);
const TRANSIENT = new Set([...MOVED, "AgentUnreachable", "CallLost", "JournalRateExceeded"]);
/** Causes that cite each other must not hang the caller. */
const CAUSES_MAX = 32;

/** Whether the same work can succeed later without a change of the app. */
export const isPlatformTransientError = (error: unknown): boolean => hasName(error, TRANSIENT);

/** Whether the agent moved to another host while this ran, as it does when new code is deployed. */
export const isDurableObjectCodeUpdateReset = (error: unknown): boolean => hasName(error, MOVED);

/** False: storage that fails is an `SqlError`, or ends the process. */
export const isDurableObjectStorageReset = (_error: unknown): boolean => false;

/** False: an agent that takes too much memory ends its process, and its input is tried again. */
export const isDurableObjectMemoryLimitReset = (_error: unknown): boolean => false;

function hasName(error: unknown, names: ReadonlySet<string>): boolean {
  let each = error;
  for (let depth = 0; each instanceof Error && depth < CAUSES_MAX; depth++) {
    if (names.has(each.name)) return true;
    each = each.cause;
  }
  return false;
}
