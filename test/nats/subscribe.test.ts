/** A callback that throws: the error is uncaught, as anywhere else; the connection reads on. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { subscribe } from "../../services/nats/client/subscribe.ts";
import { pollUntil } from "../kit/poll.ts";
import { useNats } from "./useNats.ts";

const used = useNats();

const uncaught: string[] = [];
const note = (error: unknown): void => void uncaught.push(String(error));
let others: ReadonlyArray<NodeJS.UncaughtExceptionListener> = [];
beforeEach(() => {
  // Those of the test's runner would fail the test.
  others = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", note);
});
afterEach(() => {
  process.off("uncaughtException", note);
  for (const other of others) process.on("uncaughtException", other);
});

test("a throw in a subscription's callback is an uncaught error, and the next message arrives", async () => {
  const { client } = await used.connect();
  const got: string[] = [];
  subscribe(client, "letters", (_error, message) => {
    got.push(message.string());
    if (got.length === 1) throw new Error("of the first");
  });
  await client.flush();
  // A connection receives none of its own messages.
  const other = await used.connect();
  for (const letter of ["a", "b"]) other.client.publish("letters", letter);
  await pollUntil("both have come", () => got.length === 2 || { done: false, saw: got });
  expect(uncaught).toEqual(["Error: of the first"]);
});
