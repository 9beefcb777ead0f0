/**
 * The journal in memory: `JournalStore` as one connection uses it. An append is stored in one step
 * and is never ambiguous by itself. A test makes one ambiguous with the broker's `intercept`.
 */
import * as Layer from "effect/Layer";
import { Journal, pastTheEnd, type JournalShape } from "../../core/journal/Journal.ts";
import { addressKey } from "../../schemas/Address.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";

export function makeMemoryJournal(connection: MemoryConnection): JournalShape {
  const { journal } = connection.broker;
  return {
    append: async (id, data, { expectedSeq, signal }) => {
      let message = "not tried";
      while (!signal.aborted) {
        try {
          await connection.operation("append", addressKey(id));
          const seq = journal.append(id, data, expectedSeq);
          return seq === undefined ? { _tag: "Conflict" } : { _tag: "Stored", seq };
        } catch (error) {
          message = String(error);
          await connection.pause(signal);
        }
      }
      return { _tag: "Unknown", message };
    },
    read: async function* (id, { fromSeq, toSeq = Infinity }) {
      await connection.operation("read", addressKey(id));
      for (const event of journal.eventsOf(id).filter((e) => e.seq >= fromSeq && e.seq <= toSeq))
        yield { ...event, data: event.data.slice() };
    },
    last: async (id) => {
      await connection.operation("last", addressKey(id));
      return journal.last(id);
    },
    lastOfEach: async (ids) => {
      await connection.operation("last", ids.map(addressKey).join());
      return ids.map((id) => journal.last(id));
    },
    first: async (id) => {
      await connection.operation("first", addressKey(id));
      return journal.first(id);
    },
    trim: async (id, keepFromSeq) => {
      await connection.operation("trim", addressKey(id));
      if (keepFromSeq > (journal.last(id)?.seq ?? 0)) throw pastTheEnd(id, keepFromSeq);
      return journal.purge(id, keepFromSeq);
    },
    list: async function* (className, name) {
      await connection.operation("list", className ?? "");
      for (const entry of journal.entries())
        if (entry.id.class === (className ?? entry.id.class) && entry.id.name === (name ?? entry.id.name)) yield entry; // prettier-ignore
    },
  };
}

export const layer = (connection: MemoryConnection): Layer.Layer<Journal> =>
  Layer.succeed(Journal, makeMemoryJournal(connection));
