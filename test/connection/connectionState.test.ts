/** The size of a connection's state, which each new owner of its agent receives in one message. */
import { expect, test } from "vitest";
import { Connection } from "../../core/connection/Connection.ts";

const INFO = { gateway: "g", sid: "s", id: "c", url: "http://x/", headers: [] };
const STATE_BYTES_MAX = 256 * 1024;
const QUOTES = 2;

function make() {
  let attached = 0;
  const connection = new Connection<string>(INFO, {
    send: () => undefined,
    close: () => undefined,
    attach: () => attached++,
  });
  return { connection, attached: () => attached };
}

test("a state of 256 KiB of JSON is kept", () => {
  const { connection, attached } = make();
  connection.setState("s".repeat(STATE_BYTES_MAX - QUOTES));
  expect(connection.state).toHaveLength(STATE_BYTES_MAX - QUOTES);
  expect(attached()).toBe(1);
});

test.each([
  ["text", "s".repeat(STATE_BYTES_MAX - QUOTES + 1)],
  ["text of two bytes a character", "é".repeat(STATE_BYTES_MAX / 2)],
])("a larger one is refused, and changes nothing: %s", (_what, state) => {
  const { connection, attached } = make();
  connection.setState("before");
  expect(() => connection.setState(state)).toThrow(RangeError);
  expect(() => connection.setState(() => state)).toThrow("at most 262144 bytes");
  expect(connection.state).toBe("before");
  expect(attached()).toBe(1);
});
