/** The delivery log of a whole system: the result of each request, and its bytes. */
import { beforeAll, describe, expect, test } from "vitest";
import { Agent } from "agents";
import { body, github, slug, webhook } from "agents/webhooks";
import { lastDeliveries } from "../../core/delivery/deliveryHistory.ts";
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";
import { openReader } from "../../services/wiring/joinReader.ts";
import { pollUntil } from "../kit/poll.ts";
import { runCommand } from "../kit/runCommand.ts";
import { postGithub, SECRET, useSystems, type System } from "./kit.ts";

class LoggedAgent extends Agent<unknown, { count: number; last: string }> {
  static override options = { retry: { maxAttempts: 2, baseDelayMs: 10, maxDelayMs: 20 } };
  override initialState = { count: 0, last: "" };

  override async onRequest(request: Request) {
    const text = await request.text();
    if (text.includes('"fail"')) throw new Error("broken as ordered");
    this.setState({ count: this.state.count + 1, last: text });
    return new Response("OK");
  }
}

const module = {
  agents: { LoggedAgent },
  env: { SECRET },
  webhooks: [
    webhook("/hook", {
      agent: LoggedAgent,
      verify: github({ secret: "SECRET" }),
      entity: body("repository.full_name", slug),
    }),
  ],
};

const systems = useSystems();
let system: System & { readonly options: { readonly nats: string; readonly namespace?: string } };
beforeAll(async () => {
  system = await systems.start(module);
});

const event = (name: string, action = "x") => ({ action, repository: { full_name: name } });
const target = () => ({ natsUrl: system.options.nats, namespace: system.options.namespace! });

async function recordsOf(name: string, isWanted: (r: DeliveryRecord) => boolean) {
  const ports = await openReader(target());
  try {
    return await pollUntil(`the log has ${name}`, async () => {
      const found = await lastDeliveries(ports.deliveries, { name }, 10);
      const last = found.at(-1);
      return last !== undefined && isWanted(last)
        ? { done: true, value: found }
        : { done: false, saw: found };
    });
  } finally {
    await ports.close();
  }
}

async function agents(...args: string[]): Promise<string[]> {
  const { natsUrl, namespace } = target();
  const ran = await runCommand([...args, "--nats", natsUrl, "--namespace", namespace]);
  if (ran.code !== 0) throw new Error(ran.err);
  return ran.out === "" ? [] : ran.out.split("\n");
}

describe("a delivery", () => {
  test("that its agent answered is logged once, with the sequence of its event", async () => {
    await postGithub(`${system.url}/hook`, event("answered"), { id: "g-1", event: "push" });
    const [record, ...more] = await recordsOf("answered", ({ status }) => status === "answered");
    expect(more).toEqual([]);
    expect(record).toMatchObject({
      status: "answered",
      http: 200,
      route: "/hook",
      provider: "github",
      key: "github:g-1",
      type: "push",
      agent: ["LoggedAgent", "answered"],
    });
    expect(record!.seq).toBeGreaterThan(0);
  });

  test("that failed in each attempt is dead, with the last error", async () => {
    await postGithub(`${system.url}/hook`, event("dead", "fail"));
    const [record] = await recordsOf("dead", ({ status }) => status === "dead");
    expect(record).toMatchObject({ attempt: 2, attempts: 2, error: "Error: broken as ordered" });
    expect(record!.http).toBe(500);
  });

  test("that was refused has the reason, and no bytes", async () => {
    await postGithub(`${system.url}/hook`, event("refused"), { secret: "wrong" });
    const lines = await pollUntil("the refusal", async () => {
      const found = await agents("deliveries", "--status", "refused", "--json");
      return found.length > 0 && found;
    });
    const record = JSON.parse(lines.at(-1)!) as DeliveryRecord;
    expect(record).toMatchObject({ status: "refused", http: 401, route: "/hook" });
    expect(record.why).toMatch(/signature/);
    await expect(agents("redeliver", record.id)).rejects.toThrow(/its bytes are not kept/);
  });

  test("that its agent's host refused is refused too, with the reason", async () => {
    await postGithub(`${system.url}/hook`, event("two-names/x"));
    await postGithub(`${system.url}/hook`, event("two/names-x"));
    const [, record] = await recordsOf("two-names-x", ({ http }) => http === 409);
    expect(record).toMatchObject({
      status: "refused",
      why: "its agent belongs to another entity",
    });
    await expect(agents("redeliver", record!.id)).rejects.toThrow(/its bytes are not kept/);
  });
});

describe("agents deliveries", () => {
  test("filters by agent, route and time, and 'show' prints the request as it arrived", async () => {
    await postGithub(`${system.url}/hook`, event("shown"), { id: "g-shown" });
    const [record] = await recordsOf("shown", () => true);
    const of = async (...args: string[]) => (await agents("deliveries", "--json", ...args)).length;
    expect(await of("--agent", "logged-agent/shown", "--route", "/hook", "--since", "1h")).toBe(1);
    expect(await of("--agent", "logged-agent/shown", "--route", "/other")).toBe(0);
    expect(await of("--agent", "logged-agent/shown", "--since", "2099-01-01")).toBe(0);
    const shown = (await agents("deliveries", "show", record!.id)).join("\n");
    expect(shown).toContain("x-github-delivery: g-shown");
    expect(shown).toContain(JSON.stringify(event("shown")));
  });

  test("reports an unknown delivery as an error", async () => {
    await expect(agents("deliveries", "show", "mwvbsxl7-nothing")).rejects.toThrow(/no delivery/);
  });
});

describe("agents redeliver", () => {
  test("delivers the same bytes again under a new id, and takes effect each time", async () => {
    const sent = `{ "repository": {"full_name":"again"},   "odd":"ü\\u00e9" }`;
    await postGithub(`${system.url}/hook`, sent, { id: "g-again" });
    const [first] = await recordsOf("again", () => true);
    const [line] = await agents("redeliver", first!.id, "--json");
    const { id, of } = JSON.parse(line!) as { id: string; of: string };
    expect([of, id === of]).toEqual([first!.id, false]);
    const records = await recordsOf("again", (r) => r.id === id && r.status === "answered");
    expect(records.at(-1)).toMatchObject({ of: first!.id, key: `redelivery:${id}` });
    const { state } = (await stateOf("again")) as { state: { count: number; last: string } };
    expect(state).toEqual({ count: 2, last: sent });
    expect(await agents("redeliver", first!.id, first!.id)).toHaveLength(1);
    await pollUntil("a third effect", async () => (await stateOf("again")).state.count === 3);
  });

  test("redelivers a range as its filters select; a dry run sends nothing", async () => {
    await postGithub(`${system.url}/hook`, event("range", "fail"));
    await recordsOf("range", ({ status }) => status === "dead");
    const range = ["--range", "1h..", "--agent", "LoggedAgent/range", "--status", "dead"];
    expect(await agents("redeliver", ...range, "--dry-run")).toHaveLength(1);
    const [line = ""] = await agents("redeliver", ...range, "--dry-run", "--json");
    expect(JSON.parse(line)).toMatchObject({ class: "LoggedAgent", name: "range" });
    expect((await recordsOf("range", () => true)).length).toBe(1);
    expect(await agents("redeliver", ...range)).toHaveLength(1);
    const records = await recordsOf("range", ({ of }) => of !== undefined);
    expect(records).toHaveLength(2);
  });

  test("can redeliver to another agent of the class", async () => {
    await postGithub(`${system.url}/hook`, event("origin"));
    const [record] = await recordsOf("origin", () => true);
    await agents("redeliver", record!.id, "--to", "other");
    await pollUntil("the other has it", async () => (await stateOf("other")).state.count === 1);
    expect((await stateOf("origin")).state.count).toBe(1);
  });
});

test("an erased agent's deliveries are removed from the log, and others stay", async () => {
  await Promise.all([
    postGithub(`${system.url}/hook`, event("erased")),
    postGithub(`${system.url}/hook`, event("neighbour")),
  ]);
  await recordsOf("erased", () => true);
  await recordsOf("neighbour", () => true);
  await agents("erase", "LoggedAgent", "erased", "--yes");
  const of = async (name: string) =>
    (await agents("deliveries", "--agent", `LoggedAgent/${name}`, "--json")).length;
  expect([await of("erased"), await of("neighbour")]).toEqual([0, 1]);
});

async function stateOf(
  name: string,
): Promise<{ readonly state: { readonly count: number; readonly last: string } }> {
  const out = await agents("state", "LoggedAgent", name, "--json");
  return JSON.parse(out[0]!) as never;
}
