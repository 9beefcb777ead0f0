/** Which `Host` headers a server answers, and its own origins: pure. See `attack/hosts.test.ts`. */
import { describe, expect, it } from "vitest";
import { isSameOrigin, readOrigin } from "../../core/http/origins.ts";
import { hostNameOf, servesHost } from "../../core/http/servedHosts.ts";
import { webhookOf } from "../../core/input/webhookOf.ts";

describe("the host of a request", () => {
  it.each([
    ["localhost:8787", "localhost"],
    ["Example.COM.", "example.com"],
    ["[::1]:80", "::1"],
    ["127.0.0.1", "127.0.0.1"],
    ["a:b", undefined],
    ["localhost:80@evil.example", undefined],
    ["localhost/..", undefined],
    ["local host", undefined],
    ["::1", undefined],
    ["", undefined],
  ])("in the header %j is %j", (header, name) => expect(hostNameOf(header)).toBe(name));

  it("is served if it is loopback's, listed, or an IP address where these are allowed", () => {
    const told = { names: ["agents.internal"], addresses: false };
    for (const host of [
      undefined,
      "localhost",
      "x.localhost",
      "127.1.2.3",
      "[::1]",
      "AGENTS.internal:8080",
    ])
      expect([host, servesHost(told, host)]).toEqual([host, true]);
    for (const host of [
      "evil.example",
      "10.0.0.1",
      "[fe80::1]",
      "agents.internal.evil.example",
      "127.0.0.1.nip.io",
    ])
      expect([host, servesHost(told, host)]).toEqual([host, false]);
    expect(servesHost({ names: [], addresses: true }, "10.0.0.1:80")).toBe(true);
    expect(servesHost({ names: [], addresses: true }, "[fe80::1]")).toBe(true);
    expect(servesHost({ names: [], addresses: true }, "evil.example")).toBe(false);
  });
});

describe("the origin of a request", () => {
  it("is the server's own if its host and port are the requested ones, whatever the scheme", () => {
    expect(isSameOrigin("https://a.example", ["a.example"])).toBe(true);
    expect(isSameOrigin("https://a.example", ["a.example:443"])).toBe(true);
    expect(isSameOrigin("http://a.example:8080", ["A.example:8080"])).toBe(true);
    expect(isSameOrigin("https://hooks.example", ["10.0.0.1", "hooks.example"])).toBe(true);
    for (const origin of [
      "https://a.example:8443",
      "https://b.a.example",
      "https://a.example.evil",
      "null",
      "*",
      "",
      "https://a.example, https://b.example",
    ])
      expect([origin, isSameOrigin(origin, ["a.example"])]).toEqual([origin, false]);
  });

  it("is written as browsers send it", () => {
    expect(readOrigin("*")).toBe("*");
    expect(readOrigin("HTTPS://A.example:443/")).toBe("https://a.example");
    for (const text of [
      "a.example",
      "https://a.example/x",
      "https://a.example?x",
      "https://u@a.example",
      "null",
      "data:x",
    ])
      expect([text, readOrigin(text)]).toEqual([text, undefined]);
  });
});

describe("the webhook of a turn that an older release stored", () => {
  it("has no route, and counts as verified unless its provider verifies nothing", () => {
    const cause = { kind: "webhook", id: "github:1:2", provider: "github", type: "push" } as const;
    expect(webhookOf(cause)).toEqual({ route: undefined, provider: "github", verified: true, deliveryId: "1:2", event: "push" }); // prettier-ignore
    expect(webhookOf({ ...cause, id: "gen:x", provider: "unsigned" })).toMatchObject({
      verified: false,
      deliveryId: undefined,
    });
    expect(webhookOf({ ...cause, kind: "request" })).toBeUndefined();
  });
});
