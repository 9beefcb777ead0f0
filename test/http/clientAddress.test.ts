/** The key of a caller's address, as proxies write it. */
import { expect, test } from "vitest";
import { addressOf } from "../../core/http/clientAddress.ts";

const behind = (...lines: string[]) => ({
  headers: { "x-forwarded-for": lines },
  remoteAddress: "10.0.0.1",
});

test.each([
  ["1.2.3.4", "1.2.3.4"],
  ["1.2.3.4:50001", "1.2.3.4"],
  ["::ffff:1.2.3.4", "1.2.3.4"],
  ["::FFFF:0102:0304", "1.2.3.4"],
  ["[::ffff:1.2.3.4]:50001", "1.2.3.4"],
  ["2001:db8::1", "2001:db8:0:0"],
  ["2001:DB8::1", "2001:db8:0:0"],
  ["2001:0db8:0000:0000:1:2:3:4", "2001:db8:0:0"],
  ["2001:db8:1:2::", "2001:db8:1:2"],
  ["[2001:db8::1]", "2001:db8:0:0"],
  ["[2001:db8::1]:50001", "2001:db8:0:0"],
  ["::1", "0:0:0:0"],
  ["a-name", "a-name"],
  ["", "10.0.0.1"],
])("%s is the caller %s", (written, key) => {
  expect(addressOf(behind(written), 1)).toBe(key);
});

test("the n-th entry from the end counts, and none without trusted proxies", () => {
  const request = behind("6.6.6.6, 1.2.3.4:1", "5.6.7.8");
  expect([0, 1, 2, 3, 4].map((n) => addressOf(request, n))).toEqual([
    "10.0.0.1",
    "5.6.7.8",
    "1.2.3.4",
    "6.6.6.6",
    "10.0.0.1",
  ]);
});
