/**
 * Passes one observability event to the agent's observability; an error that it throws is a line in
 * the log.
 */
import type { AgentId } from "../../schemas/Address.ts";
import { messageOf } from "../errors/thrown.ts";
import type { Observability } from "./observability.ts";
import type { LogShape } from "./Log.ts";
import type { TimeShape } from "../time/Time.ts";

export function emitEvent(
  { id, log, time }: { readonly id: AgentId; readonly log: LogShape; readonly time: TimeShape },
  observability: Observability | undefined,
  type: string,
  payload: Readonly<Record<string, unknown>>,
): void {
  const timestamp = time.nowMs();
  try {
    observability?.emit({ type, agent: id.class, name: id.name, payload, timestamp });
  } catch (error) {
    log.warn("an observability event could not be delivered", { type, error: messageOf(error) });
  }
}
