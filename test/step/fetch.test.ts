/** The guarantees of `this.fetch` in a durable turn, in one process and in virtual time. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Agent, type FetchOptions } from "agents";
import { body, github, slug, webhook } from "agents/webhooks";
import { testAgents, type TestAgents } from "agents/testing";
import { makeLatch, type Latch } from "../system/kit.ts";

const SECRET = "s3cret";
const API = "https://api.example.com";

type Work = (agent: Caller) => Promise<unknown>;
let work: Work = async () => undefined;

class Caller extends Agent<{}, { told: unknown }> {
  static override options = {
    http: "open",
    retry: { maxAttempts: 3, baseDelayMs: 10, maxDelayMs: 10 },
  };
  override initialState = { told: null as unknown };
  override async onRequest(_request: Request): Promise<Response> {
    const told = await work(this);
    if (told !== undefined) this.setState({ told });
    return Response.json(told ?? null);
  }
  async outside(init: FetchOptions): Promise<string> {
    return (await this.fetch(`${API}/outside`, init)).text();
  }
}

let test: TestAgents;
let asked: Request[] = [];
let answers: Record<string, (nth: number) => Response | Promise<Response>> = {};
let latch: Latch | undefined;
beforeEach(async () => {
  [asked, answers, latch] = [[], {}, undefined];
  test = await testAgents({
    agents: [Caller],
    webhooks: [
      webhook("/work", {
        agent: Caller,
        verify: github({ secret: "SECRET" }),
        entity: body("for", slug),
      }),
    ],
    env: { SECRET },
    outgoing: async (request) => {
      asked.push(request.clone());
      const path = new URL(request.url).pathname;
      const nth = asked.filter(({ url }) => new URL(url).pathname === path).length;
      if (path === "/slow") await latch?.opened;
      return (answers[path] ?? (() => new Response(`${path} ${nth}`)))(nth);
    },
  });
});
afterEach(() => test.close());

const agent = () => test.agent(Caller, "a");
const send = (): Promise<Response> => {
  const text = JSON.stringify({ for: "a" });
  return test.webhook("/work", text, test.sign.github(text, SECRET, { id: "1" }));
};
const paths = (): string[] => asked.map(({ url }) => new URL(url).pathname);
const textOf = async (caller: Caller, path: string, init?: FetchOptions): Promise<string> =>
  (await caller.fetch(API + path, init)).text();

it("a stored response is returned when the turn runs again", async () => {
  work = async (caller) => [await textOf(caller, "/one?a=1"), await textOf(caller, "/slow")];
  latch = makeLatch();
  void send().catch(() => undefined);
  while (!paths().includes("/slow")) await new Promise((resolve) => setImmediate(resolve));
  await test.crash();
  latch.open();
  await test.revive();
  await test.settled();
  expect((await agent().state())?.told).toEqual(["/one 1", "/slow 2"]);
  expect(paths()).toEqual(["/one", "/slow", "/slow"]);
});

it("a response may have a status that no Response can be constructed with", async () => {
  const refused = Object.defineProperty(new Response("no", { status: 500 }), "status", {
    value: 999,
  });
  answers["/odd"] = () => refused;
  work = async (caller) => {
    const { status, ok, statusText, url } = await caller.fetch(`${API}/odd`);
    return { status, ok, statusText, url };
  };
  expect(await (await send()).json()).toEqual({ status: 999, ok: false, statusText: "", url: `${API}/odd` }); // prettier-ignore
});

it("requests with an unsafe method carry the step's key, by order and URL", async () => {
  work = async (caller) => {
    for (const method of ["GET", "POST", "POST", "DELETE"]) await textOf(caller, "/x", { method });
    await textOf(caller, "/x", { method: "PUT", headers: { "idempotency-key": "own" } });
  };
  await send();
  expect(asked.map(({ headers }) => headers.get("idempotency-key"))).toEqual([
    null,
    "Caller/a/github%3A1/1%3APOST%20api.example.com%2Fx",
    "Caller/a/github%3A1/2%3APOST%20api.example.com%2Fx",
    "Caller/a/github%3A1/1%3ADELETE%20api.example.com%2Fx",
    "own",
  ]);
});

it("code sees the response as stored, in the first run too: whole, and without credentials", async () => {
  answers = {
    "/text": () =>
      new Response("grün", {
        status: 201,
        statusText: "Made",
        headers: { "set-cookie": "a=secret", authorization: "Bearer secret", "x-kept": "yes" },
      }),
    "/bytes": () => new Response(new Uint8Array([0, 255, 128])),
    "/none": () => new Response(null, { status: 204 }),
    "/streamed": () => new Response(new Blob(["a", "b", "c"]).stream()),
  };
  work = async (caller) => {
    const [text, bytes, none, streamed] = [
      await caller.fetch(`${API}/text`, { method: "POST", body: "hello" }),
      await caller.fetch(new Request(`${API}/bytes`, { method: "PUT", body: "there" })),
      await caller.fetch(new URL(`${API}/none`)),
      await caller.fetch(`${API}/streamed`),
    ];
    return {
      text: [text.status, text.statusText, text.url, Object.fromEntries(text.headers), await text.text()], // prettier-ignore
      bytes: [...new Uint8Array(await bytes.arrayBuffer())],
      none: [none.status, none.body],
      streamed: await streamed.text(),
    };
  };
  expect(await (await send()).json()).toEqual({
    text: [201, "Made", `${API}/text`, { "content-type": "text/plain;charset=UTF-8", "x-kept": "yes" }, "grün"], // prettier-ignore
    bytes: [0, 255, 128],
    none: [204, null],
    streamed: "abc",
  });
  expect(await Promise.all(asked.map((request) => request.text()))).toEqual(["hello", "there", "", ""]); // prettier-ignore
  expect(JSON.stringify(await agent().events())).not.toContain("secret");
});

it("a failed response is kept until the attempt fails, then requested again under the same key", async () => {
  answers["/charge"] = (nth) => new Response(`answer ${nth}`, { status: nth < 3 ? 503 : 200 });
  work = async (caller) => {
    await textOf(caller, "/fine", { method: "POST" });
    const response = await caller.fetch(`${API}/charge`, { method: "POST" });
    if (!response.ok) throw new Error(`it answered ${response.status}`);
    return response.text();
  };
  await send();
  await test.settled();
  expect((await agent().state())?.told).toBe("answer 3");
  expect(paths()).toEqual(["/fine", "/charge", "/charge", "/charge"]);
  expect(new Set(asked.slice(1).map(({ headers }) => headers.get("idempotency-key"))).size).toBe(1);
});

it("a request without a response is repeated by the policy, and its last error is the turn's", async () => {
  answers["/down"] = (nth) => {
    if (nth < 3) throw new TypeError("fetch failed");
    return new Response("up");
  };
  work = (caller) => textOf(caller, "/down", { method: "POST", body: "again" });
  expect(await (await send()).json()).toBe("up");
  expect(await Promise.all(asked.map((request) => request.text()))).toEqual(["again", "again", "again"]); // prettier-ignore
});

it("a request aborted by its caller is not repeated", async () => {
  answers["/down"] = () => {
    throw new TypeError("fetch failed");
  };
  work = async (caller) => {
    const signal = AbortSignal.abort(new Error("no more"));
    return caller.fetch(`${API}/down`, { signal }).catch((error: unknown) => String(error));
  };
  await send();
  expect(paths().length).toBeLessThan(2);
});

it.each(["answer", "request"])("a body of the %s that is too large is an error", async (what) => {
  const large = "x".repeat(9 * 1024 * 1024);
  answers["/large"] = () => new Response(what === "answer" ? large : "");
  work = (caller) =>
    textOf(caller, "/large", { method: "POST", body: what === "request" ? large : "" }).catch(
      String,
    );
  expect(await (await send()).json()).toBe(
    `StepTooLarge: step "POST api.example.com/large": the body of the ${what} exceeds 8388608 bytes: use fetch in a step, and return the part that you need`,
  );
  expect(paths().length).toBe(what === "answer" ? 1 : 0);
});

it("URLs of any length name steps, and each has its own response", async () => {
  const [one, two] = ["a", "b"].map((end) => `/${"x".repeat(2000)}${end}`);
  work = async (caller) => [await textOf(caller, one!), await textOf(caller, two!)];
  expect(await (await send()).json()).toEqual([`${one} 1`, `${two} 1`]);
  const steps = (await agent().events()).flatMap((line) => line.steps ?? []);
  expect(steps.map(({ key }) => key.length)).toEqual([258, 258]);
});

it("undo is refused with an error that says where it belongs", async () => {
  work = (caller) => caller.fetch(API, { undo: () => 1 } as FetchOptions).catch(String);
  expect(await (await send()).json()).toContain("undo is an option of step");
});

it("this.fetch is the plain fetch outside durable turns, and in a step's function", async () => {
  expect(await agent().outside({})).toBe("/outside 1");
  await expect(agent().outside({ record: true })).rejects.toThrow(/a turn of this kind \(rpc\) does not run again/); // prettier-ignore
  work = (caller) => caller.step("own", async () => textOf(caller, "/in", { method: "POST" }));
  await send();
  expect(asked.at(-1)!.headers.get("idempotency-key")).toBe("Caller/a/github%3A1/1%3Aown");
  const steps = (await agent().events()).flatMap((line) => line.steps ?? []);
  expect(steps).toEqual([{ key: "1:own", result: "/in 1" }]);
});

it("nested steps keep their keys when the outer step is retried", async () => {
  let attempts = 0;
  work = (caller) =>
    caller.step("outer", async () => {
      const told = await caller.step("inner", () => textOf(caller, "/in", { method: "POST" }));
      if (++attempts < 3) throw new Error("not yet");
      return told;
    });
  expect(await (await send()).json()).toBe("/in 1");
  expect(paths()).toEqual(["/in"]);
});

describe("a recording", () => {
  const charge = (caller: Caller, amount: number): Promise<string> =>
    textOf(caller, `/charge?token=secret&n=1`, {
      method: "POST",
      headers: { authorization: "Bearer secret", "content-type": "application/json" },
      body: JSON.stringify({ amount }),
      record: true,
    });
  const replayed = async (again: Work) => {
    const history = await agent().events();
    asked = [];
    work = again;
    await test.close();
    test = await testAgents({ agents: [Caller], outgoing: (request) => (asked.push(request), new Response("no")) }); // prettier-ignore
    return { history, differences: await agent().replay(history) };
  };

  it("contains the request without its credentials", async () => {
    work = (caller) => charge(caller, 1);
    await send();
    const steps = (await agent().events()).flatMap((line) => line.steps ?? []);
    expect(steps).toMatchObject([
      {
        key: "1:POST api.example.com/charge",
        request: {
          method: "POST",
          url: `${API}/charge?token=REDACTED&n=1`,
          headers: { "content-type": "application/json" },
          body: '{"amount":1}',
        },
      },
    ]);
    expect(JSON.stringify(await agent().events())).not.toContain("secret");
  });

  it("omits the fields that the webhook's route hides, which the request still carries", async () => {
    class Hiding extends Caller {
      override async onRequest(request: Request): Promise<Response> {
        const { email } = (await request.json()) as { email: string };
        await this.step(`note ${email}`, () => 1);
        const who = encodeURIComponent(email);
        await this.fetch(`${API}/${email}/${who}?who=${who}`, { record: true });
        const form = new URLSearchParams({ email });
        await this.fetch(`${API}/form`, { method: "POST", body: form, record: true });
        return this.fetch(`${API}/mail`, { method: "POST", body: email, record: true });
      }
    }
    const route = webhook("/hidden", {
      agent: Hiding,
      verify: github({ secret: "SECRET" }),
      entity: body("for", slug),
      redact: ["email"],
    });
    const outgoing = async (request: Request) => new Response(`${(await request.text()).length}`);
    await using other = await testAgents({ agents: [Hiding], webhooks: [route], env: { SECRET }, outgoing }); // prettier-ignore
    const text = JSON.stringify({ for: "a", email: "ada lovelace@example.com" });
    const response = await other.webhook("/hidden", text, other.sign.github(text, SECRET));
    expect(await response.text()).toBe("24");
    const events = JSON.stringify(await other.agent(Hiding, "a").events());
    expect(events).toContain('"request"');
    for (const value of ["lovelace", "@example", "%40example"]) expect(events).not.toContain(value);
    for (const key of ["1:note REDACTED", "1:GET api.example.com/REDACTED/REDACTED"])
      expect(events).toContain(key);
  });

  it("answers equal requests of other code, in any order, without sending them", async () => {
    work = async (caller) => [await charge(caller, 1), await charge(caller, 2)];
    await send();
    const { differences } = await replayed(async (caller) => [
      await charge(caller, 2),
      await charge(caller, 1),
    ]);
    expect(differences).toEqual([]);
    expect((await agent().state())?.told).toEqual(["/charge 2", "/charge 1"]);
    expect(asked).toEqual([]);
  });

  it("treats forms as equal despite their random boundary", async () => {
    const form =
      (name: string): Work =>
      (caller) => {
        const fields = new FormData();
        fields.set("name", name);
        return textOf(caller, "/form", { method: "POST", body: fields, record: true });
      };
    work = form("ada");
    await send();
    expect((await replayed(form("ada"))).differences).toEqual([]);
    expect((await agent().state())?.told).toBe("/form 1");
  });

  it("reports a different request, and does not answer it", async () => {
    work = (caller) => charge(caller, 1);
    await send();
    const { differences } = await replayed((caller) => charge(caller, 5));
    expect(new Set(differences)).toEqual(
      new Set([
        `github:1: fetch POST ${API}/charge?token=REDACTED&n=1: request.body.amount: 1 -> 5`,
      ]),
    );
    expect(asked).toEqual([]);
    expect((await agent().deadLetters())[0]?.reason).toContain("a re-run sends nothing");
  });

  it("returns the results of steps, and runs no unknown step", async () => {
    work = async (caller) => [
      await caller.step("one", () => "then"),
      await textOf(caller, "/plain"),
    ];
    await send();
    let ran = 0;
    const { differences } = await replayed(async (caller) => {
      const told = [await caller.step("one", () => ran++), await textOf(caller, "/plain")];
      return [...told, await caller.step("new", () => ran++).catch(() => "refused")];
    });
    expect((await agent().state())?.told).toEqual(["then", "/plain 1", "refused"]);
    expect(differences).toEqual(['github:1: step "new": it was not recorded']);
    expect([ran, asked]).toEqual([0, []]);
  });
});

it("a request can be the options of another one", async () => {
  work = async (caller) => {
    const given = { method: "POST", headers: { "x-own": "1" }, body: "hello" };
    const response = await caller.fetch(`${API}/to`, new Request(`${API}/from`, given));
    return response.text();
  };
  expect((await send()).status).toBe(200);
  const [request] = asked;
  expect([request!.url, request!.method, request!.headers.get("x-own")]).toEqual([`${API}/to`, "POST", "1"]); // prettier-ignore
  expect(await request!.text()).toBe("hello");
});
