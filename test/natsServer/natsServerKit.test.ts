/** The test harness for real servers: it must be trusted before what stands on it. */
import { connect } from "@nats-io/transport-node";
import { jetstreamManager } from "@nats-io/jetstream";
import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { startNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";

test("a test server keeps its streams and its port through kill -9 and restart", async () => {
  const nats = await startNats();
  try {
    const first = nats.pid;
    const connection = await connect({ servers: nats.url, reconnectTimeWait: 20 });
    const manager = await jetstreamManager(connection, { timeout: 500 });
    await manager.streams.add({ name: "KEPT", subjects: ["kept.>"] });
    await connection.request("kept.a", "x");
    await nats.kill();
    await nats.restart();
    expect(nats.pid).not.toBe(first);
    await pollUntil("the same client sees the stream again", async () => {
      const info = await manager.streams.info("KEPT");
      return info.state.messages === 1 || { done: false as const, saw: info.state };
    });
    await connection.close();
  } finally {
    await nats.stop();
  }
  expect(existsSync(nats.storeDir)).toBe(false);
});

test("a frozen test server does not answer until it is thawed", async () => {
  const nats = await startNats();
  const connection = await connect({ servers: nats.url });
  try {
    nats.freeze();
    const pong = connection.flush().then(() => "answered");
    const waited = new Promise((resolve) => setTimeout(resolve, 200, "silent"));
    expect(await Promise.race([pong, waited])).toBe("silent");
    nats.thaw();
    expect(await pong).toBe("answered");
  } finally {
    nats.thaw();
    await connection.close();
    await nats.stop();
  }
});

test("polling past its deadline says what was waited for and what was seen", async () => {
  let looks = 0;
  await expect(
    pollUntil("ten looks", () => ({ done: false as const, saw: `look ${(looks += 1)}` }), {
      timeoutMs: 60,
      intervalMs: 5,
    }),
  ).rejects.toThrow(/not within 60 ms: ten looks\. Last of \d+ looks: look \d+/);
});
