/** Hidden fields of webhooks' bodies: the agent's code sees them, and nothing kept has them. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Agent, callable, type Connection } from "agents";
import { body, github, slug, webhook } from "agents/webhooks";
import { messageOf } from "../../core/errors/thrown.ts";
import { testAgents, type TestAgents } from "agents/testing";
import { conceal, hideFields, hideInMessage } from "../../core/redaction/FieldRedaction.ts";
import { readModule } from "../../services/module/readModule.ts";

const SECRET = "s3cret";
const EMAIL = "ada@example.com";
const CARD = "4242424242424242";
const PIN = "pin-0815";

const hide = (text: string, redact: ReadonlyArray<string>, type = "application/json") => {
  const head = { key: "k", kind: "webhook", time: 0, redact, headers: { "content-type": type } };
  const { body: bytes, values } = hideFields({
    head: head as never,
    body: new TextEncoder().encode(text),
  });
  return { text: new TextDecoder().decode(bytes), values };
};

describe("a body's hidden fields", () => {
  it.each([
    ['{"a":{"b":"xxxx"},"c":1}', ["a.b"], '{"a":{"b":"REDACTED"},"c":1}'],
    ['{"a":{"b":"xxxx","c":[1]}}', ["a.*"], '{"a":{"b":"REDACTED","c":"REDACTED"}}'],
    ['{"a":{"b":{"c":1}}}', ["a"], '{"a":"REDACTED"}'],
    ['{"a":[{"b":1,"c":2},{"b":3}]}', ["a.b"], '{"a":[{"b":"REDACTED","c":2},{"b":"REDACTED"}]}'],
    ['{"a":[{"b":1},{"b":3}]}', ["a.1.b"], '{"a":[{"b":1},{"b":"REDACTED"}]}'],
    ['{"a":[{"b":1}]}', ["a.*.b"], '{"a":[{"b":"REDACTED"}]}'],
    ['[{"a":1}]', ["a"], '[{"a":"REDACTED"}]'],
    ['{"x":{"a":1},"y":{"a":2}}', ["*.a"], '{"x":{"a":"REDACTED"},"y":{"a":"REDACTED"}}'],
    ['{ "b" : 1.0 }', ["a"], '{ "b" : 1.0 }'],
    ['{"a":null}', ["a"], '{"a":null}'],
    // Of two members with one name the last counts; nothing remains of the first.
    ['{ "a":{"b":"xxxx"}, "a":{} }', ["a.b"], '{"a":{}}'],
    ['{ "c":[{"\\u0061":{"b":"xxxx"}, "a":1}] }', ["c.a.b"], '{"c":[{"a":1}]}'],
    ['{ "t":"\\":", "l":["x", ":", {}] }', ["a"], '{ "t":"\\":", "l":["x", ":", {}] }'],
    ["no JSON", ["a"], "REDACTED"],
  ])("of %s are selected by %j", (text, paths, kept) => {
    expect(hide(text, paths).text).toBe(kept);
  });

  it("of a form are hidden, and of JSON in its values", () => {
    const form = "application/x-www-form-urlencoded";
    expect(hide("From=%2B491234&Body=hi", ["From"], form).text).toBe("From=REDACTED&Body=hi");
    const payload = encodeURIComponent(JSON.stringify({ user: { name: "ada!" }, n: 1 }));
    const { text } = hide(`payload=${payload}`, ["payload.user.name"], form);
    expect(new URLSearchParams(text).get("payload")).toBe('{"user":{"name":"REDACTED"},"n":1}');
  });

  it.each([
    ["customer%5Bemail%5D=a%40b&n=1", ["customer.email"], "customer%5Bemail%5D=REDACTED&n=1"],
    ["customer[a]=1&customer[b]=2&n=1", ["customer"], "customer%5Ba%5D=REDACTED&customer%5Bb%5D=REDACTED&n=1"],
    ["items[0][email]=a&items[][email]=b&items[0][n]=1", ["items.email"], "items%5B0%5D%5Bemail%5D=REDACTED&items%5B%5D%5Bemail%5D=REDACTED&items%5B0%5D%5Bn%5D=1"],
    ["a[b]=1&a[c]=2", ["*.b"], "a%5Bb%5D=REDACTED&a%5Bc%5D=2"],
    ["customer.email=a&customers[email]=b", ["customer.email"], "customer.email=REDACTED&customers%5Bemail%5D=b"],
    ['a={"b":{"c":"xxxx"},"b":{}}&n=1', ["a.b.c"], "a=%7B%22b%22%3A%7B%7D%7D&n=1"],
    ['a[b]={"c":1,"d":2}', ["a.b.c"], "a%5Bb%5D=%7B%22c%22%3A%22REDACTED%22%2C%22d%22%3A2%7D"],
    // JSON that its sender calls a form, as curl does.
    ['{"customer":{"email":"a@b"},"n":1}', ["customer.email"], '{"customer":{"email":"REDACTED"},"n":1}'],
  ])("of the form %s are selected by %j", (text, paths, kept) => {
    expect(hide(text, paths, "application/x-www-form-urlencoded").text).toBe(kept);
  }); // prettier-ignore

  it("hide the whole body if it is not text", () => {
    const head = { key: "k", kind: "webhook", time: 0, redact: ["a"] } as const;
    const { body: kept } = hideFields({ head, body: new Uint8Array([0xff, 0xfe]) });
    expect(new TextDecoder().decode(kept)).toBe("REDACTED");
  });

  it("are not found in texts either, however they are escaped", () => {
    const { values } = hide(JSON.stringify({ a: 'say "hi"', b: [123456, "x"] }), ["a", "b"]);
    expect(conceal('no: say "hi", 123456', values)).toBe("no: REDACTED, REDACTED");
    expect(conceal(JSON.stringify({ why: 'say "hi"' }), values)).toBe('{"why":"REDACTED"}');
    const url = hide(JSON.stringify({ a: "ü+1 é@x" }), ["a"]).values;
    for (const text of [
      new URL("http://h/ü+1 é@x").pathname.slice(1),
      encodeURIComponent("ü+1 é@x"),
      new URLSearchParams({ q: "ü+1 é@x" }).toString().slice(2),
    ])
      expect(conceal(`/${text}/`, url)).toBe("/REDACTED/");
    expect(conceal("\ud800abc", hide('{"a":"\\ud800abc"}', ["a"]).values)).toBe("REDACTED");
  });

  it("are not found in part at the cut of a long text", () => {
    const secret = "the secret of a customer whose name is abcd";
    const { values } = hide(JSON.stringify({ a: secret, b: "abcd", c: "y".repeat(90) }), ["*"]);
    for (let before = 49_000; before < 49_200; before += 1) {
      const error = new Error("-".repeat(before) + secret + "-".repeat(50_000));
      expect(conceal(messageOf(error), values)).not.toMatch(/secret|customer|name/);
    }
    const whole = hide(JSON.stringify({ a: "0123456789".repeat(20_000) }), ["a"]).values;
    expect(conceal(messageOf(`no: ${whole[0]}`), whole)).not.toContain("5678");
  });

  it("of a socket's message are hidden in its arguments and state, too", () => {
    const rpc = JSON.stringify({ type: "rpc", args: [{ customer: { email: EMAIL } }] });
    expect(hideInMessage(rpc, ["customer.email"]).text).not.toContain(EMAIL);
    const state = JSON.stringify({ type: "cf_agent_state", state: { customer: { email: EMAIL } } });
    expect(hideInMessage(state, ["customer.email"]).text).not.toContain(EMAIL);
  });
});

describe("the declaration of hidden fields", () => {
  const route = (redact: unknown) =>
    webhook("/hook", {
      agent: "Shop",
      verify: github({ secret: "SECRET" }),
      entity: body("shop", slug),
      redact: redact as never,
    });
  it("is a list of paths, or with headers and query", () => {
    expect(route(["a.b"]).redactedFields).toEqual(["a.b"]);
    expect(route({ body: ["a"], query: ["t"] }).redactedFields).toEqual(["a"]);
    expect(route({ headers: ["x-own"] }).redactedFields).toBeUndefined();
  });
  it("is refused if it is anything else", () => {
    for (const redact of [["a..b"], [1], { body: "a" }, { fields: ["a"] }])
      expect(() => route(redact)).toThrow(/redact/);
    class Wrong extends Agent {
      static override options = { redact: ["a", ""] };
    }
    expect(() => readModule({ Wrong }, "module.ts")).toThrow(/static options of Wrong: redact/);
  });
});

/** What the code saw of each run. */
let seen: string[] = [];
/** The events that the agent emitted. */
let emitted: unknown[] = [];
class Shop extends Agent<unknown, { readonly runs: number }> {
  static override options = {
    http: "open",
    redact: ["pin"],
    retry: { maxAttempts: 2, baseDelayMs: 10, maxDelayMs: 10 },
  };
  override initialState = { runs: 0 };
  override observability = { emit: (event: unknown): void => void emitted.push(event) };
  override async onRequest(request: Request): Promise<Response> {
    const order = (await request.json()) as Order;
    seen.push(`${order.customer.email} ${order.card.number} ${order.pin}`);
    this.setState({ runs: this.state.runs + 1 });
    this.log.warn(`an order of ${order.customer.email}`, { card: order.card, pin: order.pin });
    if (order.fails) throw new Error(`no money on ${order.card.number} of ${order.customer.email}`);
    return new Response("OK");
  }
  override onMessage(_connection: Connection, message: unknown): void {
    this.setState({ runs: this.state.runs + 1 });
    const { pin, fails } = JSON.parse(String(message)) as Order;
    if (fails) throw new Error(`no message with ${pin}`);
  }
  @callable({ durable: true })
  pay({ pin, fails = false }: { readonly pin: string; readonly fails?: boolean }): void {
    seen.push(pin);
    this.log.warn(`paid with ${pin}`);
    if (fails) throw new Error(`no account has ${pin}`);
  }
  @callable()
  charge({ pin }: { readonly pin: string }): never {
    throw new Error(`no charge with ${pin}`);
  }
}
interface Order {
  readonly shop: string;
  readonly customer: { readonly email: string; readonly name: string };
  readonly card: { readonly number: string };
  readonly pin: string;
  readonly fails: boolean;
}
const order = (fails: boolean): Order => ({
  shop: "one",
  customer: { email: EMAIL, name: "Ada" },
  card: { number: CARD },
  pin: PIN,
  fails,
});
const hidden = [EMAIL, CARD, PIN];

describe("a webhook with hidden fields", () => {
  let test: TestAgents;
  beforeEach(async () => {
    seen = [];
    emitted = [];
    const shop = webhook("/hook", {
      agent: Shop,
      verify: github({ secret: "SECRET" }),
      entity: body("shop", slug),
      redact: ["customer.email", "card.*"],
    });
    test = await testAgents({ agents: [Shop], webhooks: [shop], env: { SECRET } });
  });
  afterEach(() => test.close());
  const send = (fails: boolean) =>
    test.webhook("/hook", order(fails), test.sign.github(JSON.stringify(order(fails)), SECRET));
  const kept = async () =>
    JSON.stringify([
      await test.agent(Shop, "one").events(),
      await test.agent(Shop, "one").deadLetters(),
      test.logs,
      emitted,
    ]);

  it("is seen by the agent, and hidden in journal and log", async () => {
    expect((await send(false)).status).toBe(200);
    expect(seen).toEqual([`${EMAIL} ${CARD} ${PIN}`]);
    const text = await kept();
    for (const value of hidden) expect(text).not.toContain(value);
    expect(text).toContain("an order of REDACTED");
    expect(text).toContain("Ada");
  });

  it("that fails is visible in each attempt, and hidden in errors and dead letters", async () => {
    await send(true);
    await test.advance("1 minute");
    expect(seen).toEqual([`${EMAIL} ${CARD} ${PIN}`, `${EMAIL} ${CARD} ${PIN}`]);
    const text = await kept();
    for (const value of hidden) expect(text).not.toContain(value);
    expect(text).toContain("no money on REDACTED of REDACTED");
    const letters = await test.agent(Shop, "one").deadLetters();
    expect(letters).toHaveLength(1);
  });

  it("that is redriven from the dead letters has REDACTED in their place", async () => {
    await send(true);
    await test.advance("1 minute");
    const [letter] = await test.agent(Shop, "one").deadLetters();
    seen = [];
    await test.redrive(letter!);
    await test.advance("1 minute");
    expect(seen[0]).toBe("REDACTED REDACTED REDACTED");
  });

  it("of a socket's message is hidden in the journal", async () => {
    const client = await test.connect(Shop, "one");
    client.send(JSON.stringify({ pin: PIN }));
    await test.settled();
    expect(await kept()).not.toContain(PIN);
  });

  it("of a durable call is hidden in the journal, and seen by its method", async () => {
    const client = await test.connect(Shop, "one");
    await client.call("pay", [{ pin: PIN, shop: "one" }]);
    expect(seen).toEqual([PIN]);
    const text = await kept();
    expect(text).not.toContain(PIN);
    expect(text).toContain('"callback":"pay","payload":[{"pin":"REDACTED","shop":"one"}]');
  });

  it("of a durable call that fails is hidden in its error, as its caller receives it", async () => {
    const client = await test.connect(Shop, "one");
    const failing = client.call("pay", [{ pin: PIN, fails: true }]);
    await expect(failing).rejects.toThrow("no account has REDACTED");
    const text = await kept();
    expect(text).not.toContain(PIN);
    expect(text).toContain("paid with REDACTED");
    const results = await test.agent(Shop, "one").sql("SELECT * FROM svc_agents_call_results");
    expect(JSON.stringify(results)).not.toContain(PIN);
  });

  it("of a call that fails is hidden in the emitted event", async () => {
    const client = await test.connect(Shop, "one");
    await expect(client.call("charge", [{ pin: PIN }])).rejects.toThrow("no charge with");
    expect(await kept()).not.toContain(PIN);
    const payload = { method: "charge", error: "no charge with REDACTED" };
    expect(emitted).toContainEqual(expect.objectContaining({ type: "rpc:error", payload }));
  });

  it("of a socket's message that fails is hidden in the log", async () => {
    const client = await test.connect(Shop, "one");
    client.send(JSON.stringify({ pin: PIN, fails: true }));
    await test.settled();
    const text = await kept();
    expect(text).not.toContain(PIN);
    expect(text).toContain("no message with REDACTED");
  });
});
