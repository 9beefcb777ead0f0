/** The base of the schedules bench: JetStream scheduled messages alone, one for each schedule. */
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, headers } from "@nats-io/transport-node";
import { startNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { inParallel } from "../../services/cli/agents/inParallel.ts";
import type { Rung } from "./agents/alarmAgents.ts";
import type { Alarms } from "./schedules.ts";

/** Stores under way: as many as keep the broker busy. */
const STORING_AT_ONCE = 256;
/** After the last due time. */
const FIRED_TIMEOUT_MS = 60_000;
const STREAM = "RAW";

export async function startRaw(syncAlways: boolean): Promise<Alarms> {
  const nats = await startNats({ syncAlways });
  const client = await connect({ servers: nats.url });
  const [manager, stream] = [await jetstreamManager(client), jetstream(client)];
  await manager.streams.add({
    name: STREAM,
    subjects: ["raw.timer.>", "raw.due.>"],
    retention: "workqueue",
    allow_msg_schedules: true,
  } as Parameters<typeof manager.streams.add>[0]);
  await manager.consumers.add(STREAM, {
    durable_name: "due",
    filter_subject: "raw.due.>",
    ack_policy: "explicit",
  });
  let lateMs: number[] = [];
  let lastMs = 0;
  const consumer = await stream.consumers.get(STREAM, "due");
  await consumer.consume({
    callback: (message) => {
      lastMs = Date.now();
      lateMs.push(lastMs - Number(message.string()));
      message.ack();
    },
  });
  let armed = 0;
  return {
    name: "raw",
    server: client.info?.version ?? "of an unknown version",
    arm: (dueMs) =>
      inParallel(dueMs, STORING_AT_ONCE, async (due) => {
        const schedule = headers();
        schedule.set("Nats-Schedule", `@at ${new Date(due).toISOString()}`);
        schedule.set("Nats-Schedule-Target", `raw.due.${armed % 100}`);
        await stream.publish(`raw.timer.${(armed += 1)}`, String(due), { headers: schedule });
      }),
    rung: async (count): Promise<Rung> => {
      await pollUntil(
        "all have come",
        () => lateMs.length >= count || { done: false, saw: lateMs.length },
        {
          timeoutMs: FIRED_TIMEOUT_MS,
        },
      );
      const found = { lateMs, lastMs };
      lateMs = [];
      return found;
    },
    stop: async () => {
      await client.close();
      await nats.stop();
    },
  };
}
