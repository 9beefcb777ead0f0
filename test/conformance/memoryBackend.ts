/** The memory adapters as a conformance backend, under virtual time. */
import { makeMemoryBlobs } from "../../services/memory/MemoryBlobs.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryBus } from "../../services/memory/MemoryBus.ts";
import { makeMemoryDeliveryLog } from "../../services/memory/MemoryDeliveryLog.ts";
import { makeMemoryDeadLetters } from "../../services/memory/MemoryDeadLetters.ts";
import { makeMemoryInbox } from "../../services/memory/MemoryInbox.ts";
import { makeMemoryJournal } from "../../services/memory/MemoryJournal.ts";
import { makeMemoryJournalFeed } from "../../services/memory/MemoryJournalFeed.ts";
import { makeMemoryLeases } from "../../services/memory/MemoryLeases.ts";
import { makeMemoryQuarantines } from "../../services/memory/MemoryQuarantines.ts";
import { makeMemorySnapshots } from "../../services/memory/MemorySnapshots.ts";
import { makeMemoryTimers } from "../../services/memory/MemoryTimers.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import {
  LEASE_TTL_MS,
  PAYLOAD_BYTES_MAX,
  SHARDS,
  type Backend,
  type BackendOptions,
} from "./Backend.ts";

const STEP_MS = 5;
const STEPS_MAX = 4_000;

export async function memoryBackend({
  leaseTtlMs = LEASE_TTL_MS,
}: BackendOptions = {}): Promise<Backend> {
  const time = new VirtualTime();
  const broker = new MemoryBroker({
    time,
    shards: SHARDS,
    leaseTtlMs,
    payloadBytesMax: PAYLOAD_BYTES_MAX,
  });
  return {
    name: "memory",
    open: async () => {
      const connection = broker.connect();
      return {
        journal: makeMemoryJournal(connection),
        feed: makeMemoryJournalFeed(connection),
        inbox: makeMemoryInbox(connection),
        leases: makeMemoryLeases(connection),
        quarantines: makeMemoryQuarantines(connection),
        snapshots: makeMemorySnapshots(connection),
        blobs: makeMemoryBlobs(connection),
        deadLetters: makeMemoryDeadLetters(connection),
        deliveries: makeMemoryDeliveryLog(connection),
        bus: makeMemoryBus(connection),
        timers: makeMemoryTimers(connection),
      };
    },
    kill: async () => broker.stop(),
    restart: async () => broker.start(),
    nowMs: time.monotonicMs,
    wallMs: time.nowMs,
    until: async (what, check) => {
      let saw: unknown;
      for (let step = 0; step < STEPS_MAX; step++) {
        const answer = await check();
        if (typeof answer === "object" && answer !== null && "done" in answer) {
          if (answer.done && "value" in answer) return answer.value as never;
          saw = "saw" in answer ? answer.saw : answer;
        } else if (answer !== undefined && answer !== null && answer !== false)
          return answer as never;
        else saw = answer;
        await time.advance(STEP_MS);
      }
      throw new Error(
        `not within ${STEPS_MAX * STEP_MS} virtual ms: ${what}. Last seen: ${String(saw)}`,
      );
    },
    close: async () => undefined,
  };
}
