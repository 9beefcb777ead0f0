/** Which agent receives a mail: resolvers, signatures, automatic mail, and declared routes. */
import { afterEach, describe, expect, test, vi } from "vitest";
import { AgentNamespace, routeAgentEmail, type AgentEmail } from "agents";
import {
  createAddressBasedEmailResolver,
  createCatchAllEmailResolver,
  createHeaderBasedEmailResolver,
  createSecureReplyEmailResolver,
  emailRoute,
  isAutoReplyEmail,
  parseEmail,
  signAgentHeaders,
} from "agents/email";
import { ReceivedEmail, type MailInput } from "../../core/mail/AgentEmail.ts";
import { composeMail } from "../../core/mail/composeMail.ts";
import { mailHead } from "../../core/mail/mailDrop.ts";
import { decodeWords, readHeaders } from "../../core/mail/mailHead.ts";
import { readModule } from "../../services/module/readModule.ts";
import { Agent } from "agents";

const NOBODY = { reject: () => undefined, forward: async () => {}, reply: async () => {} };

function email(
  to: string,
  headers: Record<string, string> = {},
  from = "a@example.org",
): AgentEmail {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const raw = new TextEncoder().encode(`${lines.join("")}\r\nbody`);
  return new ReceivedEmail({ from, to, raw, secureRouted: false }, NOBODY);
}

test("the raw message is a copy, with no other bytes behind it", async () => {
  const raw = Buffer.from("from: a@example.org\r\n\r\nbody"); // in Node's pool
  const mail = new ReceivedEmail({ from: "a", to: "b", raw, secureRouted: false }, NOBODY);
  const read = await mail.getRaw();
  expect([Buffer.isBuffer(read), read.buffer.byteLength]).toEqual([false, raw.length]);
  read.fill(0);
  expect(Buffer.from(await mail.getRaw())).toEqual(raw);
});

test("a routed message is not copied, unless the module has replaced getRaw", async () => {
  const stored: Uint8Array[] = [];
  const namespace = new AgentNamespace(
    "Desk",
    () => {
      throw new Error("nothing is called");
    },
    async (_id, { raw }) => void stored.push(raw),
  );
  const raw = new TextEncoder().encode("from: a@example.org\r\n\r\nbody");
  const mail = new ReceivedEmail({ from: "a", to: "b", raw, secureRouted: false }, NOBODY);
  const options = { resolver: createCatchAllEmailResolver("Desk", "d") };
  await routeAgentEmail(mail, { Desk: namespace }, options);
  expect(stored[0]).toBe(raw);
  const other = new Uint8Array(3);
  Object.assign(mail, { getRaw: async () => other });
  await routeAgentEmail(mail, { Desk: namespace }, options);
  expect(stored[1]).toBe(other);
});

describe("by address", () => {
  const resolve = createAddressBasedEmailResolver("Default");
  test.each([
    ["support+case@x.org", { agentName: "support", agentId: "case" }],
    ["Support+Case-A@x.org", { agentName: "Support", agentId: "Case-A" }],
    ["support+a+b@x.org", { agentName: "support", agentId: "a+b" }],
    ["someone@x.org", { agentName: "Default", agentId: "someone" }],
    ["+b@x.org", null],
    ["a+@x.org", null],
    ["no address", null],
    ["@x.org", null],
    ["a@", null],
    [`${"a".repeat(65)}@x.org`, null],
    [`${"a".repeat(64)}@x.org`, { agentName: "Default", agentId: "a".repeat(64) }],
    [`a@${"x".repeat(254)}`, null],
  ])("%s", async (to, target) => {
    expect(await resolve(email(to), {})).toEqual(target);
  });
  test("every message goes to one agent if so configured", async () => {
    const all = createCatchAllEmailResolver("One", "main");
    expect(await all(email("x@y.org"), {})).toEqual({ agentName: "One", agentId: "main" });
  });
  test("the resolver by unsigned headers throws, and says what to use instead", () => {
    expect(() => createHeaderBasedEmailResolver()).toThrow(/createSecureReplyEmailResolver/);
  });
});

describe("by signed headers", () => {
  afterEach(() => void vi.useRealTimers());
  const reasons: string[] = [];
  const resolve = createSecureReplyEmailResolver("s3cret", {
    maxAge: 3600,
    onInvalidSignature: (_email, reason) => void reasons.push(reason),
  });
  const refusal = async (headers: Record<string, string>) => {
    reasons.length = 0;
    expect(await resolve(email("r@x.org", headers), {})).toBeNull();
    return reasons;
  };

  test("a signature is valid until it expires, and names its agent", async () => {
    vi.useFakeTimers({ now: 1_000_000_000_000, toFake: ["Date"] });
    const headers = await signAgentHeaders("s3cret", "my-agent", "Name 1");
    expect(headers["X-Agent-Sig-Ts"]).toBe("1000000000");
    const home = { agentName: "my-agent", agentId: "Name 1", _secureRouted: true };
    expect(await resolve(email("r@x.org", headers), {})).toEqual(home);
    vi.setSystemTime(1_000_000_000_000 + 3_600_000);
    expect(await resolve(email("r@x.org", headers), {})).toEqual(home);
    vi.setSystemTime(1_000_000_000_000 + 3_601_000);
    expect(await refusal(headers)).toEqual(["expired"]);
    vi.setSystemTime(1_000_000_000_000 - 300_000);
    expect(await resolve(email("r@x.org", headers), {})).toEqual(home);
    vi.setSystemTime(1_000_000_000_000 - 301_000);
    expect(await refusal(headers)).toEqual(["invalid"]);
  });

  test("each kind of invalid signature has its reason", async () => {
    const headers = await signAgentHeaders("s3cret", "my-agent", "n");
    expect(await refusal({})).toEqual(["missing_headers"]);
    const { "X-Agent-Sig": _gone, ...unsigned } = headers;
    expect(await refusal(unsigned)).toEqual(["missing_headers"]);
    expect(await refusal({ ...headers, "X-Agent-Sig-Ts": "soon" })).toEqual([
      "malformed_timestamp",
    ]);
    expect(await refusal({ ...headers, "X-Agent-ID": "m" })).toEqual(["invalid"]);
    expect(await refusal({ ...headers, "X-Agent-Sig": "!!" })).toEqual(["invalid"]);
    expect(await refusal(await signAgentHeaders("other", "my-agent", "n"))).toEqual(["invalid"]);
  });

  test("empty values and names with a colon are not signed", async () => {
    await expect(signAgentHeaders("", "a", "b")).rejects.toThrow(/secret/);
    await expect(signAgentHeaders("s", "", "b")).rejects.toThrow(/name/);
    await expect(signAgentHeaders("s", "a", "")).rejects.toThrow(/id/);
    await expect(signAgentHeaders("s", "a:b", "c")).rejects.toThrow(/colon/);
    await expect(signAgentHeaders("s", "a", "b:c")).rejects.toThrow(/colon/);
  });
});

test.each([
  [[{ key: "Auto-Submitted", value: "auto-replied" }], true],
  [[{ key: "auto-submitted", value: "No" }], false],
  [[{ key: "AUTO-SUBMITTED", value: "auto-generated; x=1" }], true],
  [[{ key: "X-Auto-Response-Suppress", value: "All" }], true],
  [[{ key: "precedence", value: "BULK" }], true],
  [[{ key: "Precedence", value: "junk" }], true],
  [[{ key: "Precedence", value: "list" }], true],
  [[{ key: "Precedence", value: "normal" }], false],
  [[], false],
])("isAutoReplyEmail classifies %j", (headers, is) => {
  expect(isAutoReplyEmail(headers)).toBe(is);
});

describe("routing", () => {
  const taken: Array<readonly [string, string, MailInput]> = [];
  const namespace = (name: string) =>
    new AgentNamespace(
      name,
      () => {
        throw new Error("no calls");
      },
      async (id, mail) => void taken.push([id.class, id.name, mail]),
    );
  const env = { SupportAgent: namespace("SupportAgent"), TEXT: "no namespace" };

  test.each(["SupportAgent", "support-agent", "supportagent", "SUPPORTAGENT"])(
    "%s names the binding",
    async (name) => {
      taken.length = 0;
      const resolver = createCatchAllEmailResolver(name, "x");
      await routeAgentEmail(email("a@b.org"), env, { resolver });
      expect(taken[0]!.slice(0, 2)).toEqual(["SupportAgent", "x"]);
    },
  );
  test("a message built by an app is routed like a received one; its bytes may be a stream", async () => {
    const raw = "Subject: made\r\n\r\nby hand";
    for (const given of [raw, new Response(raw).body!]) {
      taken.length = 0;
      const resolver = (mail: AgentEmail) =>
        Promise.resolve({ agentName: "SupportAgent", agentId: mail.headers.get("subject")! });
      await routeAgentEmail({ from: "a@b.org", to: "c@d.org", raw: given }, env, { resolver });
      const [[, name, mail]] = taken as [(typeof taken)[number]];
      expect([name, mail.from, new TextDecoder().decode(mail.raw)]).toEqual(["made", "a@b.org", raw]); // prettier-ignore
    }
  });
  test("a message without an agent calls its own onNoRoute", async () => {
    const reasons: string[] = [];
    const built = { from: "a@b.org", to: "c@d.org", raw: "\r\n", setReject: (why: string) => void reasons.push(why) }; // prettier-ignore
    await routeAgentEmail(built, env, { resolver: async () => null });
    expect(reasons).toEqual(["Unknown address"]);
  });
  test("an unknown binding is an error that names it and the existing ones", async () => {
    const resolver = createCatchAllEmailResolver("Nope", "x");
    await expect(routeAgentEmail(email("a@b.org"), env, { resolver })).rejects.toThrow(
      "Agent namespace 'Nope' not found in environment. Available agents: SupportAgent",
    );
  });
  test("onNoRoute receives messages without an agent", async () => {
    const seen: AgentEmail[] = [];
    const mail = email("a@b.org");
    const resolver = async () => null;
    await routeAgentEmail(mail, env, { resolver, onNoRoute: (each) => void seen.push(each) });
    expect(seen).toEqual([mail]);
    await routeAgentEmail(mail, env, { resolver });
  });
});

describe("declared routes", () => {
  test.each([
    ["support@x.org", "Support@X.org", "support"],
    ["support+*@x.org", "support+Case-7@x.org", "case-7"],
    ["*@x.org", "any@x.org", "any"],
    ["*@*", "any@y.org", "any"],
    ["a@xn--mnchen-3ya.de", "a@münchen.de", "a"],
    ["a@münchen.de", "a@xn--mnchen-3ya.de", "a"],
    ["a+*@München.de", "a+b@münchen.de", "b"],
  ])("%s matches %s and names the agent %s", async (address, to, agentId) => {
    const route = emailRoute(address, { agent: "Support" });
    expect(route.matches(to)).toBe(true);
    expect(await route.target(email(to))).toEqual({ agentName: "Support", agentId });
  });
  test.each([
    ["support@x.org", "support@y.org"],
    ["support@x.org", "supportt@x.org"],
    ["support+*@x.org", "support+@x.org"],
    ["a.b@x.org", "axb@x.org"],
  ])("%s does not match %s", (address, to) => {
    expect(emailRoute(address, { agent: "Support" }).matches(to)).toBe(false);
  });
  test("an invalid route says why, alone and in a module", () => {
    expect(() => emailRoute("nonsense", { agent: "A" })).toThrow(/local@domain/);
    expect(() => emailRoute("*a*@x.org", { agent: "A" })).toThrow(/one \*/);
    class Support extends Agent {}
    const module = (entry: unknown) => readModule({ Support, default: { email: [entry] } }, "m.ts");
    expect(() => module(emailRoute("*@*", { agent: "Other" }))).toThrow(/does not export/);
    expect(() => module("x")).toThrow(/neither a route nor a resolver/);
    expect(module(emailRoute("*@*", { agent: Support })).emailRoutes).toHaveLength(1);
  });
});

describe("reading and writing headers", () => {
  test("folded headers are joined, and invalid lines skipped", () => {
    const raw = new TextEncoder().encode(
      "Subject: a\r\n  folded\r\nnonsense\r\nX-A: 1\nX-A: 2\r\n\r\nX-B: body",
    );
    const headers = readHeaders(raw);
    expect(Object.fromEntries(headers)).toEqual({ subject: "a  folded", "x-a": "1, 2" });
  });
  test("encoded words are decoded, whatever their charset; unknown ones stay", () => {
    expect(decodeWords("=?UTF-8?Q?J=C3=B6rg_M?= =?iso-8859-1?B?/A==?=")).toBe("Jörg Mü");
    expect(decodeWords("=?no-such?Q?x?=")).toBe("=?no-such?Q?x?=");
  });
  test.each([
    ["a subject", { subject: "a\r\nBcc: all@x.org" }],
    ["a name", { from: { address: "a@x.org", name: "A\nBcc: b@x.org" } }],
    ["an address", { to: "a@x.org\r\nBcc: b@x.org" }],
    ["two addresses in one", { to: "a@x.org, b@x.org" }],
    ["a header", { headers: { "X-A": "1\r\nBcc: b@x.org" } }],
    ["a header's name", { headers: { "X-A: 1\r\nBcc": "b@x.org" } }],
    ["a header of the message's own", { headers: { Bcc: "b@x.org", From: "c@x.org" } }],
    ["a message id", { inReplyTo: "<a>\nBcc: b@x.org" }],
  ])("nothing is injected into the headers by %s", (_what, part) => {
    const whole = { from: "a@x.org", to: "b@x.org", subject: "s", text: "t", ...part };
    expect(() => composeMail(whole)).toThrow(TypeError);
  });
  test("any bytes yield headers, a key, and parts", async () => {
    // A small generator of its own: the same bytes at every run.
    let seed = 7;
    const next = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below;
    const words = [
      "\r\n", "\n", "\0", ":", "Subject: ", "=?utf-8?B?", "?=", "--x", " ", "\t", "\xff\xfe",
      "Content-Type: multipart/mixed; boundary=x\r\n", "Content-Type: text/plain; charset=nope\r\n",
      "Content-Transfer-Encoding: base64\r\n", "Message-ID: <", "a@b", "=E2=82", "\r\n\r\n",
    ]; // prettier-ignore
    for (let run = 0; run < 500; run++) {
      const text = Array.from({ length: next(40) }, () => words[next(words.length)]!).join("");
      const raw = Uint8Array.from(text, (c) => c.charCodeAt(0));
      const mail = { from: "", to: "a@x.org", raw, secureRouted: false };
      const { key } = await mailHead(mail, 1);
      expect(key).toMatch(/^mail:[0-9a-f]{32}$/);
      const parsed = await parseEmail({ getRaw: async () => raw });
      expect(Array.isArray(parsed.headers)).toBe(true);
    }
  });
  test("one message has one key, whatever relays add; another with its Message-ID has a different key", async () => {
    const key = async (raw: string, to = "a@x.org") =>
      (
        await mailHead(
          { from: "f@x.org", to, raw: new TextEncoder().encode(raw), secureRouted: false },
          1,
        )
      ).key;
    const one = await key("Message-ID: <1@x>\r\n\r\nbody");
    expect(await key("Received: by relay\r\nMessage-ID: <1@x>\r\n\r\nbody")).toBe(one);
    expect(await key("Message-ID: <1@x>\r\n\r\nother")).not.toBe(one);
    expect(await key("Message-ID: <1@x>\r\n\r\nbody", "b@x.org")).not.toBe(one);
    expect(await key("Subject: 1\r\n\r\nbody")).not.toBe(await key("Subject: 2\r\n\r\nbody"));
  });
});
