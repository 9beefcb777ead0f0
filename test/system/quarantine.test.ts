/** Quarantined agents on real hosts: nothing of them runs until they are released. */
import { afterEach, describe, expect, test } from "vitest";
import { Agent, getAgentByName } from "agents";
import { body, github, webhook } from "agents/webhooks";
import { agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { encodeEvent } from "../../schemas/JournalEvent.ts";
import type { QuarantineMark } from "../../schemas/QuarantineMark.ts";
import { pollUntil } from "../kit/poll.ts";
import {
  openInspector,
  startTestGateway,
  startTestHost,
  type SystemOptions,
  type TestModule,
} from "../kit/system.ts";
import { postGithub, SECRET, useSystems } from "./kit.ts";

/** What each agent was sent, in the order in which it ran. */
const told = new Map<string, number[]>();

class Kept extends Agent {
  static override options = { http: "open" };

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return new Response("here");
    const { agent, n } = (await request.json()) as { agent: string; n: number };
    told.set(agent, [...(told.get(agent) ?? []), n]);
    return new Response("done");
  }
  ping(): string {
    return "pong";
  }
}

const route = (path: string, deadlineMs: number) =>
  webhook(path, {
    agent: Kept,
    verify: github({ secret: "SECRET" }),
    entity: body("agent"),
    deadlineMs,
  });
const module: TestModule = {
  agents: { Kept },
  env: { SECRET },
  version: "1",
  webhooks: [route("/stored", 2_000), route("/kept", 60_000)],
};

const systems = useSystems();
const stops: Array<() => Promise<void>> = [];
afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop();
});

const started = async <A extends { readonly stop: () => Promise<void> }>(
  starting: Promise<A>,
): Promise<A> => {
  const one = await starting;
  stops.push(() => one.stop());
  return one;
};
const markOf = (more: Partial<QuarantineMark> = {}): QuarantineMark => ({
  kind: "kills",
  reason: "its turns have ended 3 processes",
  host: "another",
  sinceMs: Date.now(),
  untilMs: Date.now() + 3_600_000,
  times: 1,
  version: "1",
  ...more,
});
/** Stored by another host before this one begins. */
async function marked(options: SystemOptions, id: AgentId, mark: QuarantineMark): Promise<void> {
  const inspector = await openInspector(options);
  await inspector.quarantines.put(id, mark);
  await inspector.close();
}
const post = async (url: string, agent: string, n: number): Promise<number> =>
  (await postGithub(url, { agent, n })).status;
/** Its caller waits for the agent, however slow the machine is. */
const send = (url: string, agent: string, n: number) => post(`${url}/kept`, agent, n);
/** For an agent that does not answer. */
const store = (url: string, agent: string, n: number) => post(`${url}/stored`, agent, n);
const statusOf = async (url: string, name: string): Promise<number> =>
  (await fetch(`${url}/agents/kept/${name}`)).status;

describe("an agent that another host has quarantined", () => {
  test("runs on no host; its webhooks are answered 202, and run in order when it is released", async () => {
    const options = systems.options(module);
    const id = agentId("Kept", "bad");
    await marked(options, id, markOf());
    const gateway = await started(startTestGateway(options, "gateway"));
    const first = await startTestHost(options, "first");
    const { url } = gateway;
    expect(await store(url, "bad", 1)).toBe(202);
    expect(await send(url, "good", 1)).toBe(200);
    const refused = await fetch(`${url}/agents/kept/bad`);
    expect(refused.status).toBe(503);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await refused.text()).toContain("quarantined");
    const stub = await getAgentByName<Kept>(gateway.env["Kept"] as never, "good");
    expect(await stub.ping()).toBe("pong");
    await expect(
      getAgentByName<Kept>(gateway.env["Kept"] as never, "bad").then((bad) => bad.ping()),
    ).rejects.toMatchObject({ name: "AgentQuarantined" });
    expect(await first.metrics.render()).toMatch(/^agents_quarantined 1$/m);

    await started(startTestHost(options, "second"));
    await first.stop();
    expect(await store(url, "bad", 2)).toBe(202);
    expect(await statusOf(url, "bad")).toBe(503);
    expect(told.get("bad")).toBeUndefined();

    const release = () =>
      gateway.calls.call(id, { kind: "release" }, { deadlineMs: 10_000, repeatable: true });
    expect((await release()).reply).toMatchObject({ kind: "result", value: { times: 1 } });
    await pollUntil("both have run", () => (told.get("bad")?.length ?? 0) >= 2);
    expect(await send(url, "bad", 3)).toBe(200);
    expect(told.get("bad")).toEqual([1, 2, 3]);
    expect((await release()).reply).toEqual({ kind: "result", value: null });
    const inspector = await openInspector(options);
    await pollUntil("its mark is over", async () =>
      (await inspector.quarantines.list()).every(({ mark }) => mark.untilMs <= Date.now()),
    );
    await inspector.close();
  });

  test.each([
    ["other code runs", markOf({ version: "0" })],
    ["its time is over", markOf({ untilMs: Date.now() - 1 })],
  ])("runs if %s", async (what, mark) => {
    const options = systems.options(module);
    await marked(options, agentId("Kept", what), mark);
    const gateway = await started(startTestGateway(options, "gateway"));
    await started(startTestHost(options, "host"));
    expect(await send(gateway.url, what, 1)).toBe(200);
  });

  test("runs its waiting inputs as soon as its time is over", async () => {
    const options = systems.options(module);
    await marked(options, agentId("Kept", "late"), markOf({ untilMs: Date.now() + 4_000 }));
    const gateway = await started(startTestGateway(options, "gateway"));
    await started(startTestHost(options, "host"));
    expect([200, 202]).toContain(await store(gateway.url, "late", 1));
    await pollUntil("it has run", () => told.get("late")?.length === 1);
  });
});

test("an agent with a damaged journal is quarantined, and later hosts know it", async () => {
  const options = systems.options(module);
  const id = agentId("Kept", "damaged");
  const head = { id: "x", agent: ["Kept", "damaged"], kind: "turns", host: "h", epoch: 1 };
  const data = encodeEvent({ ...head, time: 1, turns: [] } as never, new Uint8Array(0));
  data[data.length - 3]! ^= 1;
  const inspector = await openInspector(options);
  stops.push(inspector.close);
  const signal = AbortSignal.timeout(10_000);
  await inspector.journal.append(id, data, { expectedSeq: 0 as Sequence, signal });
  const gateway = await started(startTestGateway(options, "gateway"));
  const host = await started(startTestHost(options, "host"));
  expect(await store(gateway.url, "damaged", 1)).toBe(202);
  expect(await statusOf(gateway.url, "damaged")).toBe(503);
  const [found] = await pollUntil("it is stored", async () => {
    const marks = await inspector.quarantines.list();
    return marks.length > 0 && { done: true, value: marks };
  });
  expect(found).toMatchObject({ id, mark: { kind: "journal", host: "host", times: 1 } });
  expect(await inspector.inbox.depth()).toBe(1);
  expect(await host.metrics.render()).toMatch(/^agents_quarantined 1$/m);
});
