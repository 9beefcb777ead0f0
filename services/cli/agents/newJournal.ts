/**
 * Writes a new agent's journal event by event, for `import` and `fork`. Each append expects the
 * previous event, so that an existing agent is never overwritten.
 */
import { bareEnd } from "../../../core/journal/endLife.ts";
import { addressKey, type AgentId, type Epoch, type Sequence } from "../../../schemas/Address.ts";
import { STORE_TIMEOUT_MS, type ReadPorts } from "../../wiring/ReadPorts.ts";
import { failed } from "../terminal/CliError.ts";

/** Where the new journal begins: at the start, or after the end event of an erased agent. */
interface FreePlace {
  readonly seq: Sequence;
  readonly epoch: Epoch;
}

/** For a command that a signal ends while it writes the agent `of`. */
export const inPart = (of: string): string =>
  `Interrupted. ${of} may be stored in part: if "agents list" shows it, erase it ("agents erase") before you run this again.`;

/** Throws `CliError` if the agent exists; `advice` then says what to do. */
export async function freePlace(
  { journal }: ReadPorts,
  id: AgentId,
  advice: string,
): Promise<FreePlace> {
  const last = await journal.last(id);
  if (last === undefined) return { seq: 0 as Sequence, epoch: 0 as Epoch };
  const end = bareEnd(last);
  if (end !== undefined) return { seq: last.seq, epoch: end.epoch as Epoch };
  throw failed(`${addressKey(id)} exists here already, and was not changed. ${advice}`);
}

/** Appends one event after `expectedSeq` and returns its sequence. Throws `CliError`. */
export async function storeEvent(
  { journal }: ReadPorts,
  id: AgentId,
  data: Uint8Array,
  expectedSeq: Sequence,
): Promise<Sequence> {
  const signal = AbortSignal.timeout(STORE_TIMEOUT_MS);
  const result = await journal.append(id, data, { expectedSeq, signal });
  if (result._tag === "Stored") return result.seq;
  const why =
    result._tag === "Conflict"
      ? "an input arrived and activated it meanwhile: stop its senders"
      : result.message;
  const last = await journal.last(id).catch(() => undefined);
  if (last === undefined || bareEnd(last) !== undefined)
    throw failed(`${addressKey(id)} could not be stored: ${why}`);
  throw failed(
    `${addressKey(id)} is only partly stored: ${why}. Erase it ("agents erase") and run this again.`,
  );
}
