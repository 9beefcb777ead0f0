/**
 * Decodes an event that is read from a journal. What can't be read is reported with its sequence,
 * by which an operator finds it in the stream. For every reader that shows its error to people:
 * the log, `agents list --quarantined`, the commands.
 */
import { CorruptFrame, UnknownVersion } from "../../schemas/Frame.ts";
import { decodeEvent, type JournalEvent } from "../../schemas/JournalEvent.ts";
import type { StoredEvent } from "./Journal.ts";

/** `of`: the agent, for a reader of many agents. Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeStored(
  { seq, data }: Pick<StoredEvent, "data"> & { readonly seq: number },
  of?: string,
): JournalEvent {
  try {
    return decodeEvent(data);
  } catch (error) {
    const where = `${of === undefined ? "" : `${of}: `}event ${seq} can't be read`;
    if (error instanceof CorruptFrame)
      throw new CorruptFrame({ message: `${where}: ${error.message}` });
    if (error instanceof UnknownVersion)
      throw new UnknownVersion({
        version: error.version,
        message: `${where}: ${error.message}`,
      });
    throw error;
  }
}
