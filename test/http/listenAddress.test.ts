import { expect, it } from "vitest";
import { listenFailed } from "../../services/http/explainListen.ts";

it("what can't be listened on is named as in a URL: an IPv6 address is in brackets", () => {
  const { message } = listenFailed({ hostname: "::1", port: 8787 }, "EADDRINUSE");
  expect(message).toContain("[::1]:8787");
});
