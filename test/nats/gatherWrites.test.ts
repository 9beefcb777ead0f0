/** The installed client lets its writes be gathered: one write for a pass of the event loop. */
import type { Socket } from "node:net";
import { connect } from "@nats-io/transport-node";
import { expect, test } from "vitest";
import { gatherWrites } from "../../services/nats/client/gatherWrites.ts";
import { startNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";

const MESSAGES = 100;

test("everything published in one pass of the event loop is sent in one write, in order, however much", async () => {
  const nats = await startNats();
  const client = await connect({ servers: nats.url });
  try {
    const { socket } = (client as unknown as { protocol: { transport: { socket: Socket } } })
      .protocol.transport;
    let writes = 0;
    const write = socket.write.bind(socket) as (...args: unknown[]) => boolean;
    socket.write = ((...args: unknown[]) => (writes++, write(...args))) as typeof socket.write;
    const seen: number[] = [];
    client.subscribe("numbers", {
      callback: (_error, message) => {
        seen.push(Number(message.string()));
      },
    });
    await client.flush();

    expect(gatherWrites(client)).toBeDefined();
    writes = 0;
    for (let n = 0; n < MESSAGES; n++) {
      client.publish("numbers", String(n));
      await Promise.resolve();
    }
    expect(writes).toBe(0);
    await pollUntil(
      "all have arrived",
      () => seen.length === MESSAGES || { done: false, saw: seen },
    );
    expect(seen).toEqual(Array.from({ length: MESSAGES }, (_, n) => n));
    expect(writes).toBe(1);

    // Passes of the event loop until what was published is written.
    const passesFor = async (messages: number): Promise<number> => {
      writes = 0;
      for (let n = 0; n < messages; n++) client.publish("other", "x");
      // The client asks for the write in a microtask.
      await Promise.resolve();
      let passes = 0;
      while (writes === 0) {
        await new Promise((resolve) => setImmediate(resolve));
        passes++;
      }
      return passes;
    };
    expect([await passesFor(1), await passesFor(2), await passesFor(3)]).toEqual([1, 1, 1]);

    writes = 0;
    for (let n = 0; n < MESSAGES; n++) client.publish("other", new Uint8Array(4_096));
    expect(writes).toBeGreaterThan(0);
  } finally {
    await client.close();
    await nats.stop();
  }
});

test("a client with different internals is left unchanged", () => {
  for (const other of [{}, { protocol: {} }, { protocol: { flushPending: () => undefined } }])
    expect(gatherWrites(other as never)).toBeUndefined();
});
