/**
 * The rows that one commit adds to and removes from an agent's schedules or queue, as its event
 * lists them (`JournalHead`).
 */
export interface RowChanges {
  readonly put?: ReadonlyArray<unknown>;
  readonly del?: ReadonlyArray<string>;
}

/** Undefined when nothing changed. */
export function rowChanges(
  put: ReadonlyArray<unknown>,
  del: ReadonlyArray<string>,
): RowChanges | undefined {
  if (put.length === 0 && del.length === 0) return undefined;
  return { ...(put.length > 0 ? { put } : {}), ...(del.length > 0 ? { del } : {}) };
}
