/** Whose wrong tokens count for whom: by address, also behind a proxy. */
import { expect, test } from "vitest";
import { ConsoleToken } from "../../services/console/ConsoleToken.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

const TOKEN = "the token of the console";
const WRONG_MAX = 10;

function make(trustedProxies: number) {
  const own = new ConsoleToken(TOKEN, new VirtualTime(), trustedProxies);
  const judge = (token: string, remoteAddress: string, forwarded?: string) =>
    own.judge({
      remoteAddress,
      headers: {
        authorization: [`Bearer ${token}`],
        ...(forwarded === undefined ? {} : { "x-forwarded-for": [forwarded] }),
      },
    });
  const guess = (remoteAddress: string, forwarded?: (n: number) => string): void => {
    for (let n = 0; n < WRONG_MAX; n++) judge("wrong", remoteAddress, forwarded?.(n));
  };
  return { judge, guess };
}

test("a visitor behind a proxy locks out itself, and nobody else", () => {
  const { judge, guess } = make(1);
  guess("10.0.0.1", (n) => `forged-${n}, 6.6.6.6:${n}`);
  expect(judge(TOKEN, "10.0.0.1", "6.6.6.6")).toBe("tooMany");
  expect(judge(TOKEN, "10.0.0.1", "1.2.3.4")).toBe("right");
});

test("without a proxy the header is not read, and an IPv6 network is one address", () => {
  const { judge, guess } = make(0);
  guess("1.2.3.4", (n) => `forged-${n}`);
  expect(judge(TOKEN, "1.2.3.4", "other")).toBe("tooMany");
  for (let n = 0; n < WRONG_MAX; n++) judge("wrong", `2001:db8::${n}`);
  expect(judge(TOKEN, "2001:db8::ffff")).toBe("tooMany");
  expect(judge(TOKEN, "2001:db8:1::1")).toBe("right");
});
