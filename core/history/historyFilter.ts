/**
 * Selects turns of an agent's history by cause, outcome, time, or a text that they contain. Pure.
 * For `agents history` and the console.
 */
import { requestOf } from "../../schemas/DeliveryRecord.ts";
import type { Cause } from "../../schemas/JournalEvent.ts";
import type { HistoryLine } from "../journal/historyLines.ts";

/** Criteria. Absent: any. */
export interface HistoryFilter {
  /** What began the turn: `webhook`, `rpc`, `schedule`, …; also `claimed` and `destroyed`. */
  readonly kind?: string | undefined;
  /** The webhook's route as declared. */
  readonly route?: string | undefined;
  /** Id of the delivery that began it, also of a part of it. */
  readonly delivery?: string | undefined;
  /** Only turns that ended with an error, or whose input is dead. */
  readonly failed?: boolean | undefined;
  /** Milliseconds since the epoch, both included. */
  readonly sinceMs?: number | undefined;
  readonly untilMs?: number | undefined;
  /** A text anywhere in the turn: its input, state, statements or error. Case does not count. */
  readonly text?: string | undefined;
}

/** `cause`: with all that is known of it (`WholeCauses`). */
export function matchesTurn(
  line: HistoryLine,
  cause: Partial<Cause>,
  filter: HistoryFilter,
): boolean {
  const { kind, route, delivery, failed, sinceMs = -Infinity, untilMs = Infinity, text } = filter;
  const timeMs = Date.parse(line.time);
  return (
    (kind === undefined || line.cause.kind === kind) &&
    (route === undefined || cause.route === route) &&
    (delivery === undefined || isOf(delivery, cause.delivery)) &&
    (failed !== true || line.error !== undefined || line.dead === true) &&
    timeMs >= sinceMs &&
    timeMs <= untilMs &&
    (text === undefined || contains({ ...line, cause: { ...line.cause, ...cause } }, text))
  );
}

const isOf = (wanted: string, delivery: string | undefined): boolean =>
  delivery !== undefined && (delivery === wanted || requestOf(delivery) === wanted);

function contains(line: HistoryLine, text: string): boolean {
  const wanted = text.toLowerCase();
  // Searched as they are, too, because JSON escapes some of their characters.
  const { error = "", sql = [], cause } = line;
  return [JSON.stringify(line), cause.body ?? "", error, ...sql].some((one) =>
    one.toLowerCase().includes(wanted),
  );
}
