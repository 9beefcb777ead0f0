/** Follows journals for a command, after what it prints of the past, until Ctrl-C. */
import type { StoredEvent } from "../../../core/journal/Journal.ts";
import type { FeedFilter } from "../../../core/journal/JournalFeed.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import type { AgentId } from "../../../schemas/Address.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { stopSignals } from "../terminal/stopSignals.ts";
import type { Terminal } from "../terminal/Terminal.ts";

interface Following {
  readonly filter: FeedFilter;
  /** Called once the feed has begun. */
  readonly past?: () => Promise<void>;
  /** Takes an event that is stored from the call on, after the past. True: no more are wanted. */
  readonly next: (id: AgentId, event: StoredEvent) => Promise<boolean>;
}

/** Resolves at a signal, and when `next` wants no more. Rejects if the feed fails. */
export async function followTurns(
  { feed }: Pick<ReadPorts, "feed">,
  terminal: Pick<Terminal, "err">,
  time: Pick<TimeShape, "monotonicMs">,
  { filter, past = async () => undefined, next }: Following,
): Promise<void> {
  const ended = new AbortController();
  const signals = stopSignals(time);
  try {
    await new Promise<void>((resolve, reject) => {
      void signals.stopped.then(() => resolve());
      let open: (reading: Promise<void>) => void;
      const opened = new Promise<void>((settle) => (open = settle));
      const handler = async (id: AgentId, event: StoredEvent): Promise<void> => {
        await opened;
        if (await next(id, event)) resolve();
      };
      feed
        .follow(filter, handler, { signal: ended.signal, onFailed: reject })
        .then(() => {
          const reading = past();
          open(reading);
          return reading;
        })
        .then(() => terminal.err("Following. Press Ctrl-C to stop."), reject);
    });
  } finally {
    ended.abort();
    signals.release();
  }
}
