/** Requests to the broker whose replies come late, or can't be received. */
import { expect, test } from "vitest";
import {
  openConnection,
  type NatsConnectionShape,
} from "../../services/nats/client/NatsConnection.ts";
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

test("once the login may not receive replies, each request is lost at once, with the reason", () => {
  let deny!: (subject: string) => void;
  const connection = {
    client: { subscribe: () => undefined, info: { max_payload: 1_000 } },
    connected: () => true,
    onChange: () => () => undefined,
    onDenied: (f: typeof deny) => (deny = f),
    beforeClose: () => undefined,
  } as object as NatsConnectionShape;
  const replies = new ReplyInbox(connection, "agents.answer.gateway.token");
  const lost: unknown[] = [];
  const ask = () =>
    replies.expect(
      { reply: () => true, lost: (...why) => lost.push(why) },
      { timeoutMs: TIMEOUT_MS },
    );
  const denied = "agents.answer.gateway.token.*";
  deny("agents.journal.Box.one");
  const pending = ask();
  expect([pending === undefined, lost]).toEqual([false, []]);
  deny(denied);
  expect(lost).toEqual([["denied", denied]]);
  expect(ask()).toBeUndefined();
  expect(lost).toEqual([["denied", denied], ["denied", denied]]); // prettier-ignore
});
