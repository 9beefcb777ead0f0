/** The reference's own published client, unchanged, under Node. */
import { AgentClient } from "reference-agents/client";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import WebSocket from "ws";
import { Agent, callable, type Connection } from "agents";
import { body, github, slug, webhook } from "agents/webhooks";
import { pollUntil } from "../kit/poll.ts";
import { postGithub, SECRET, useSystems, type System } from "./kit.ts";

interface Count {
  readonly count: number;
}

class CounterAgent extends Agent<Record<string, unknown>, Count> {
  static override options = { http: "open" };
  override initialState: Count = { count: 0 };
  override onRequest() {
    this.setState({ count: this.state.count + 1 });
    return new Response("OK");
  }
  override onMessage(connection: Connection, message: string) {
    connection.send(`echo ${message}`);
  }
  override validateStateChange(next: Count) {
    if (next.count < 0) throw new Error("below zero");
  }
  @callable()
  add(by: number) {
    this.setState({ count: this.state.count + by });
    return this.state.count;
  }
  @callable()
  fail() {
    throw new Error("as asked");
  }
}

const systems = useSystems();
let system: System;
const clients: Array<{ close: () => void }> = [];
beforeAll(async () => {
  system = await systems.start({
    agents: { CounterAgent },
    env: { SECRET },
    webhooks: [
      webhook("/webhooks/github", {
        agent: CounterAgent,
        verify: github({ secret: "SECRET" }),
        entity: body("repository.full_name", slug),
      }),
    ],
  });
});
afterEach(() => {
  for (const client of clients.splice(0)) client.close();
});

function follow(name: string, more: object = {}) {
  const updates: Array<readonly [unknown, string]> = [];
  const errors: string[] = [];
  const client = new AgentClient<unknown, Count>({
    host: system.url.replace("http://", ""),
    agent: "CounterAgent",
    name,
    WebSocket,
    onStateUpdate: (state: unknown, source: string) => updates.push([state, source]),
    onStateUpdateError: (error: string) => errors.push(error),
    ...more,
  } as never);
  clients.push(client);
  return { client, updates, errors };
}
const reaches = (
  followed: { readonly updates: ReadonlyArray<readonly [unknown, string]> },
  last: readonly [unknown, string],
) =>
  pollUntil("the update", () =>
    JSON.stringify(followed.updates.at(-1)) === JSON.stringify(last)
      ? { done: true, value: true }
      : { done: false, saw: followed.updates },
  );

describe("the reference's client", () => {
  test("receives its identity and the state, and is ready", async () => {
    const { client, updates } = follow("ready");
    await client.ready;
    expect([client.identified, client.agent, client.name]).toEqual([
      true,
      "counter-agent",
      "ready",
    ]);
    expect(client.state).toEqual({ count: 0 });
    expect(updates).toEqual([[{ count: 0 }, "server"]]);
  });

  test("receives a state changed by a webhook, and one set by another client", async () => {
    const [a, b] = [follow("both"), follow("both")];
    await Promise.all([a.client.ready, b.client.ready]);
    await postGithub(`${system.url}/webhooks/github`, { repository: { full_name: "both" } });
    await reaches(a, [{ count: 1 }, "server"]);
    await reaches(b, [{ count: 1 }, "server"]);
    a.client.setState({ count: 10 });
    expect(a.updates.at(-1)).toEqual([{ count: 10 }, "client"]);
    await reaches(b, [{ count: 10 }, "server"]);
    expect(a.updates).toHaveLength(3);
  });

  test("receives an error when its update is rejected", async () => {
    const { client, errors } = follow("rejected");
    await client.ready;
    client.setState({ count: -1 });
    await pollUntil("the error", () => errors.length === 1);
    expect(errors).toEqual(["State update rejected"]);
  });

  test("calls methods, by call and by stub", async () => {
    const { client } = follow("calls");
    await client.ready;
    expect(await client.call("add", [2])).toBe(2);
    const stub = client.stub as unknown as { add: (by: number) => Promise<number> };
    expect(await stub.add(3)).toBe(5);
    expect(client.state).toEqual({ count: 5 });
    await expect(client.call("fail")).rejects.toThrow("as asked");
    await expect(client.call("absent")).rejects.toThrow("Method absent does not exist");
  });

  test("receives messages outside the protocol", async () => {
    const { client } = follow("messages");
    await client.ready;
    const got: unknown[] = [];
    client.addEventListener("message", (event) => got.push((event as MessageEvent).data));
    client.send("hello");
    await pollUntil("the echo", () => got.includes("echo hello"));
  });

  test("is found by its id and tags after it reconnects", async () => {
    const { client } = follow("again");
    await client.ready;
    client.reconnect();
    await pollUntil("it is ready again", () => client.identified && client.readyState === 1);
    await client.ready;
    expect(client.state).toEqual({ count: 0 });
    expect(await client.call("add", [1])).toBe(1);
  });
});
