/**
 * The causes of turns, while a journal is read. A turn that commits several times has its whole
 * cause in its first event, and only the key in the others.
 */
import type { Cause, JournalHead } from "../../schemas/JournalEvent.ts";

/** Continuing turns of one agent at a time, with room. The oldest are forgotten. */
const REMEMBERED_MAX = 1_000;

export class WholeCauses {
  private readonly known = new Map<string, Cause>();

  /** The causes of the event's turns in order, each with all that is known of it. */
  of({ turns }: JournalHead): ReadonlyArray<Cause> {
    return turns.map(({ cause }) => {
      if (cause.id === undefined) return cause;
      const key = `${cause.kind} ${cause.attempt ?? 1} ${cause.id}`;
      if (cause.time === undefined) return { ...this.known.get(key), ...cause };
      this.known.set(key, cause);
      if (this.known.size > REMEMBERED_MAX) this.known.delete(this.known.keys().next().value!);
      return cause;
    });
  }
}
