/**
 * Waits until an event that a caller has seen is stored, for `agents query --after`. A view that is
 * updated afterwards includes it.
 */
import type { TimeShape } from "../../../core/time/Time.ts";
import { agentId } from "../../../schemas/Address.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import type { ChosenEvent } from "../options/argumentParsers.ts";
import { failed } from "../terminal/CliError.ts";
import { existingClass } from "./findAgent.ts";
import { sleep } from "../../../core/time/sleep.ts";

/** The caller has seen the event stored, so only a slow clock or copy can delay it. */
const WAIT_MS = 30_000;
/** Asking for the ends of the streams is cheap. */
const AGAIN_MS = 100;

/** Throws `CliError` if the event is not stored in time. */
export async function awaitEvent(
  { journal, changes }: Pick<ReadPorts, "journal" | "changes">,
  time: Pick<TimeShape, "monotonicMs" | "after">,
  { className, name, seq }: ChosenEvent,
): Promise<void> {
  const group = changes.groupOf(agentId(await existingClass(journal, className), name));
  const endMs = time.monotonicMs() + WAIT_MS;
  for (;;) {
    const stored = (await changes.streams())[group]?.end ?? 0;
    if (stored >= seq) return;
    if (time.monotonicMs() > endMs)
      throw failed(
        `Event ${seq} of ${className}/${name} was not stored within ${WAIT_MS / 1_000} seconds. The last one stored is ${stored}.`,
      );
    await sleep(time, AGAIN_MS);
  }
}
