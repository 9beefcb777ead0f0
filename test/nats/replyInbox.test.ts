/** Timeouts of requests to the broker, in a process that stands still. */
import { expect, test } from "vitest";
import { openConnection } from "../../services/nats/client/NatsConnection.ts";
import { ReplyInbox } from "../../services/nats/client/ReplyInbox.ts";
import { holdThread } from "../kit/holdThread.ts";
import { startNats } from "../kit/natsServer.ts";

const TIMEOUT_MS = 200;

test("a reply that arrives while the process stands still comes before its timeout", async () => {
  const server = await startNats();
  const connection = await openConnection({ servers: server.url }, () => undefined);
  try {
    const replies = new ReplyInbox(connection, connection.newInbox());
    const ended = new Promise<string>((resolve) => {
      const reply = (): boolean => {
        resolve("replied");
        return true;
      };
      const waiter = { reply, lost: resolve };
      replies.send("$JS.API.INFO", new Uint8Array(), waiter, { timeoutMs: TIMEOUT_MS });
    });
    // The client writes in an immediate that a microtask sets. Nothing is read before this one.
    await Promise.resolve();
    setImmediate(() => holdThread(4 * TIMEOUT_MS));
    expect(await ended).toBe("replied");
  } finally {
    await connection.close();
    await server.stop();
  }
});
