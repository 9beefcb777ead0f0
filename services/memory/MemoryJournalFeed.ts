/**
 * The feed of stored events in memory: events of `JournalStore`, queued while the connection is
 * down.
 */
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
      let delivering = false;
      const deliver = async (): Promise<void> => {
        if (delivering) return;
        delivering = true;
        try {
          while (waiting.length > 0 && connection.connected && !signal.aborted) {
            const { id, event } = waiting.shift()!;
            await handler(id, { ...event, data: event.data.slice() });
          }
        } catch (error) {
          stop();
          onFailed(error);
        } finally {
          delivering = false;
        }
      };
      const offStore = journal.watch((stored) => {
        if (!matches(filter, stored.id)) return;
        waiting.push(stored);
        // An event is never delivered inside its append.
        queueMicrotask(() => void deliver());
      });
      const offChange = connection.onChange((up) => {
        if (up) void deliver();
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

const matches = (filter: FeedFilter, id: AgentId): boolean =>
  filter.className === undefined ||
  (filter.className === id.class && (filter.name === undefined || filter.name === id.name));

export const layer = (connection: MemoryConnection): Layer.Layer<JournalFeed> =>
  Layer.succeed(JournalFeed, makeMemoryJournalFeed(connection));
