/**
 * What the steps of past webhooks returned, in a worker of `agents dev --from`: its control process
 * sends each recording before the webhook (`followInstallation`). A step without one does not run:
 * nothing leaves the process.
 */
import type { RecordedStep } from "../../core/history/Rerun.ts";
import type { Cause } from "../../schemas/JournalEvent.ts";
import { RecordedTurn, type RecordedSteps } from "../../core/step/RecordedSteps.ts";

/** The steps of one past webhook. */
export interface Recording {
  /** The input's dedup key. */
  readonly key: string;
  readonly steps: ReadonlyArray<RecordedStep>;
}

/** Older ones are forgotten: enough for webhooks that wait and those that are tried again. */
export const RECORDINGS_MAX = 1_000;

export class Recordings implements RecordedSteps {
  private readonly turns = new Map<string, RecordedTurn>();

  add({ key, steps }: Recording): void {
    this.turns.delete(key);
    this.turns.set(key, new RecordedTurn(steps));
    if (this.turns.size > RECORDINGS_MAX) this.turns.delete(this.turns.keys().next().value!);
  }

  of({ id }: Cause): RecordedTurn {
    return this.turns.get(id!) ?? new RecordedTurn([]);
  }
}
