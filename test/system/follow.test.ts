/** State subjects: NATS clients follow an agent, a class or everything without our library. */
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterEach, describe, expect, test } from "vitest";
import { Agent } from "agents";
import { body, github, slug, webhook } from "agents/webhooks";
import { pollUntil } from "../kit/poll.ts";
import { postGithub, SECRET, useSystems } from "./kit.ts";

interface Told {
  readonly class: string;
  readonly name: string;
  readonly seq: number;
  readonly time: number;
  readonly state?: { readonly count: number };
}

class CountAgent extends Agent<Record<string, unknown>, { readonly count: number } | undefined> {
  static override options = { http: "open" };
  override onRequest(request: Request) {
    if (request.method === "DELETE") this.setState(undefined);
    else this.setState({ count: (this.state?.count ?? 0) + 1 });
    return new Response("OK");
  }
}
class OtherAgent extends CountAgent {}

const systems = useSystems();
let client: NatsConnection | undefined;
afterEach(async () => {
  await client?.close();
  client = undefined;
});
const start = async () => {
  const system = await systems.start({
    agents: { CountAgent, OtherAgent },
    env: { SECRET },
    webhooks: [CountAgent, OtherAgent].map((agent) =>
      webhook(`/webhooks/${agent.name}`, {
        agent,
        verify: github({ secret: "SECRET" }),
        entity: body("repository.full_name", slug),
      }),
    ),
  });
  client = await connect({ servers: systems.nats.url.replace("nats://", "") });
  const ns = system.options.namespace!;
  const follow = (subject: string) => {
    const told: Told[] = [];
    client!.subscribe(`${ns}.state.${subject}`, {
      callback: (_error, message) => {
        // A request for the current state passes by on the same subject.
        if (message.reply === undefined || message.reply === "") told.push(message.json<Told>());
      },
    });
    return told;
  };
  const post = (className: string, name: string) =>
    postGithub(`${system.url}/webhooks/${className}`, { repository: { full_name: name } });
  return { system, ns, follow, post };
};

describe("a plain NATS subscriber", () => {
  test("receives every state of an agent, in order, with its journal sequence, while webhooks arrive", async () => {
    const { follow, post } = await start();
    const told = follow("CountAgent.acme-x");
    await client!.flush();
    await Promise.all(Array.from({ length: 200 }, () => post("CountAgent", "acme/x")));
    await pollUntil("the last state", () => told.at(-1)?.state?.count === 200);
    expect(told.map((t) => t.state?.count)).toEqual(Array.from({ length: 200 }, (_, i) => i + 1));
    const seqs = told.map((t) => t.seq);
    expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
    expect(told[0]).toMatchObject({ class: "CountAgent", name: "acme-x" });
    expect(Math.abs(told[0]!.time - Date.now())).toBeLessThan(60_000);
  });

  test("can follow a class, or everything", async () => {
    const { follow, post } = await start();
    const [ofClass, all] = [follow("CountAgent.*"), follow(">")];
    await client!.flush();
    await post("CountAgent", "a");
    await post("CountAgent", "b");
    await post("OtherAgent", "a");
    await pollUntil("all three", () => all.length === 3);
    expect(ofClass.map((t) => `${t.class} ${t.name}`)).toEqual(["CountAgent a", "CountAgent b"]);
    expect(all.map((t) => `${t.class} ${t.name}`)).toEqual([
      "CountAgent a",
      "CountAgent b",
      "OtherAgent a",
    ]);
  });

  test("can request the current state on the same subject", async () => {
    const { ns, follow, post } = await start();
    const told = follow("CountAgent.asked");
    await client!.flush();
    await post("CountAgent", "asked");
    await pollUntil("the state", () => told.length === 1);
    const ask = async () =>
      (await client!.request(`${ns}.state.CountAgent.asked`, "", { timeout: 5000 })).json<Told>();
    expect(await ask()).toEqual(told[0]);
    const never = await client!.request(`${ns}.state.CountAgent.never`, "", { timeout: 5000 });
    expect(never.json<Told>()).toMatchObject({ name: "never", seq: 0 });
    expect(never.json<Told>()).not.toHaveProperty("state");
  });

  test("receives a message without a state if it is unset", async () => {
    const { system, follow, post } = await start();
    const told = follow("CountAgent.cleared");
    await client!.flush();
    await post("CountAgent", "cleared");
    await fetch(`${system.url}/agents/count-agent/cleared`, { method: "DELETE" });
    await pollUntil("both", () => told.length === 2);
    expect(told[0]).toHaveProperty("state");
    expect(told[1]).not.toHaveProperty("state");
  });

  test("receives an error for a class in kebab case, an invalid name, an unknown class", async () => {
    const { ns } = await start();
    const ask = async (subject: string) =>
      (await client!.request(`${ns}.state.${subject}`, "", { timeout: 5000 })).json<object>();
    expect(await ask("count-agent.x")).toEqual({ error: expect.stringContaining("count-agent") });
    expect(await ask("CountAgent.=zz")).toEqual({ error: expect.stringContaining("=zz") });
    expect(await ask("NoAgent.x")).toMatchObject({ class: "NoAgent", error: expect.any(String) });
  });
});

describe("messages without a reply subject", () => {
  test("stop neither gateways nor hosts", async () => {
    const { system, ns, post } = await start();
    for (const topic of ["frame", "reply", "census"])
      client!.publish(`${ns}.gateway.gateway-a.${topic}`, "not a frame", {
        reply: "_INBOX.nowhere",
      });
    client!.publish(`${ns}.gateway.gateway-a.frame`, '{"v":99,"crc":"00000000"}\n');
    for (let shard = 0; shard < 4; shard++) {
      client!.publish(`${ns}.call.${shard}.CountAgent.x`, "not a frame", {
        reply: "_INBOX.nowhere",
      });
      client!.publish(`${ns}.call.${shard}.=zz.x`, "not a frame", { reply: "_INBOX.nowhere" });
    }
    await client!.flush();
    expect((await post("CountAgent", "after")).text).toBe("OK");
    const unread = system.gateway.log.lines.filter((l) => l.message.includes("could not be read"));
    expect(unread).toHaveLength(4);
  });
});
