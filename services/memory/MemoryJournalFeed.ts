/** The feed of stored events in memory: what `JournalStore` tells, kept while the connection is down. */
import * as Layer from "effect/Layer";
import {
  JournalFeed,
  type FeedFilter,
  type JournalFeedShape,
} from "../../core/journal/JournalFeed.ts";
import type { AgentId } from "../../schemas/Address.ts";
import type { JournalEvent } from "./JournalStore.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";

export function makeMemoryJournalFeed(connection: MemoryConnection): JournalFeedShape {
  const { journal } = connection.broker;
  return {
    follow: async (filter, handler, { signal, onFailed }) => {
      await connection.operation("follow", filter.className ?? "");
      const waiting: JournalEvent[] = [];
      let giving = false;
      const give = async (): Promise<void> => {
        if (giving) return;
        giving = true;
        try {
          while (waiting.length > 0 && connection.connected && !signal.aborted) {
            const { id, event } = waiting.shift()!;
            await handler(id, { ...event, data: event.data.slice() });
          }
        } catch (error) {
          stop();
          onFailed(error);
        } finally {
          giving = false;
        }
      };
      const offStore = journal.watch((stored) => {
        if (!isOf(filter, stored.id)) return;
        waiting.push(stored);
        // News travel: never inside the append.
        queueMicrotask(() => void give());
      });
      const offChange = connection.onChange((up) => {
        if (up) void give();
      });
      const stop = (): void => {
        offStore();
        offChange();
        waiting.length = 0;
      };
      signal.addEventListener("abort", stop, { once: true });
      if (signal.aborted) stop();
    },
  };
}

const isOf = (filter: FeedFilter, id: AgentId): boolean =>
  filter.className === undefined ||
  (filter.className === id.class && (filter.name === undefined || filter.name === id.name));

export const layer = (connection: MemoryConnection): Layer.Layer<JournalFeed> =>
  Layer.succeed(JournalFeed, makeMemoryJournalFeed(connection));
