/** Sockets survive hibernation, and the loss of hosts and of the broker. */
import { describe, expect, test } from "vitest";
import { Agent, type Connection, type ConnectionContext } from "agents";
import { pollUntil } from "../kit/poll.ts";
import { startTestGateway, startTestHost } from "../kit/system.ts";
import { withoutRepeats } from "../kit/withoutRepeats.ts";
import { TestSocket, useSystems } from "./kit.ts";

interface Env {
  readonly log: string[];
}

class SleeperAgent extends Agent<Env, { readonly n: number }> {
  static override options = { hibernateAfterSeconds: 0.2 };
  override initialState = { n: 0 };

  override onStart() {
    this.env.log.push(`start ${this.name}`);
  }
  override onConnect(connection: Connection, { request }: ConnectionContext) {
    this.env.log.push(`connect ${connection.id}`);
    connection.setState({ role: new URL(request.url).searchParams.get("role") });
    this.setConnectionReadonly(connection, connection.id === "reader");
  }
  override onMessage(connection: Connection, message: string) {
    if (message === "bump") return this.setState({ n: this.state.n + 1 });
    if (message === "all") return this.broadcast(`all ${[...this.getConnections()].length}`);
    connection.send(
      JSON.stringify({
        message,
        id: connection.id,
        uri: new URL(connection.uri).search,
        tags: connection.tags,
        state: connection.state,
        readonly: this.isConnectionReadonly(connection),
      }),
    );
    connection.setState((before) => ({ ...(before as object), last: message }));
  }
  override onClose(connection: Connection, code: number) {
    this.env.log.push(`close ${connection.id} ${code}`);
  }
  override getConnectionTags(connection: Connection) {
    return [`tag-${connection.id}`];
  }
  override onRequest() {
    return Response.json({ state: this.state, connections: [...this.getConnections()].length });
  }
}

const systems = useSystems();
const start = async () => {
  const log: string[] = [];
  const system = await systems.start({ agents: { SleeperAgent }, env: { log } });
  return { ...system, log };
};
const open = async (url: string, query: string) => {
  const socket = await TestSocket.open(`${url}/agents/sleeper-agent/s?${query}`);
  await socket.first(3);
  socket.frames.length = 0;
  return socket;
};
const ask = async (socket: TestSocket, message: string) => {
  const before = socket.frames.length;
  socket.send(message);
  await socket.first(before + 1);
  return JSON.parse(String(socket.frames[before])) as Record<string, unknown>;
};

/** The states after the first. A new owner, or one that was cut off, sends the last again. */
const changesOf = (socket: TestSocket): unknown[] =>
  withoutRepeats([{ n: 0 }, ...socket.states]).slice(1);

describe("a socket", () => {
  test("stays open while its agent hibernates, and keeps id, URL, tags, state and flags", async () => {
    const { log, host, gateway, stop } = await start();
    const socket = await open(gateway.url, "_pk=reader&role=admin");
    const first = await ask(socket, "one");
    expect(first).toEqual({
      message: "one",
      id: "reader",
      uri: "?_pk=reader&role=admin",
      tags: ["reader", "tag-reader"],
      state: { role: "admin" },
      readonly: true,
    });
    for (let round = 1; round <= 2; round++) {
      await pollUntil("it hibernates", () => host.host.agentsActive === 0);
      expect(await ask(socket, `round ${round}`)).toEqual({
        ...first,
        message: `round ${round}`,
        state: { role: "admin", last: round === 1 ? "one" : "round 1" },
      });
    }
    expect(log).toEqual(["start s", "connect reader", "start s", "start s"]);
    await pollUntil("it hibernates", () => host.host.agentsActive === 0);
    await socket.close(4005);
    await pollUntil("onClose ran", () => log.includes("close reader 4005"));
    await stop();
  });

  test("receives what happened while its agent woke for another", async () => {
    const { host, gateway, stop } = await start();
    const [a, b] = [await open(gateway.url, "_pk=a"), await open(gateway.url, "_pk=b")];
    await pollUntil("it hibernates", () => host.host.agentsActive === 0);
    a.send("bump");
    await b.first(2);
    // Nothing was stored before: the start set the initial state anew.
    expect(b.states).toEqual([{ n: 0 }, { n: 1 }]);
    await pollUntil("it hibernates", () => host.host.agentsActive === 0);
    b.send("all");
    expect(await a.first(2)).toEqual([a.frames[0], "all 2"]);
    await a.close();
    await b.close();
    await stop();
  });

  test("stays open when its host hands over: nothing is lost, onConnect does not run again", async () => {
    const { log, options, host: hostA, gateway } = await start();
    const socket = await open(gateway.url, "_pk=w");
    const other = await open(gateway.url, "_pk=o");
    const hostB = await startTestHost(options, "host-b");
    for (let i = 0; i < 300; i++) socket.send("bump");
    await socket.first(1);
    await hostA.stop();
    socket.send("bump"); // for the other host, if the first one has done the rest
    for (const client of [socket, other]) {
      await client.until("all changes", () => changesOf(client).length >= 301);
      expect(changesOf(client)).toEqual(Array.from({ length: 301 }, (_, i) => ({ n: i + 1 })));
    }
    expect(log.filter((line) => line.startsWith("connect"))).toEqual(["connect w", "connect o"]);
    expect(log.filter((line) => line.startsWith("close"))).toEqual([]);
    expect(log.filter((line) => line.startsWith("start")).length).toBeGreaterThan(1);
    for (const each of [socket, other]) await each.close();
    await gateway.stop();
    await hostB.stop();
  });

  test("and messages sent on it survive a broker outage", async () => {
    const { gateway, stop } = await start();
    const socket = await open(gateway.url, "_pk=w");
    await systems.nats.kill();
    socket.send("bump");
    await systems.nats.restart();
    await socket.until("the state", () => socket.states.length >= 1);
    socket.send("bump");
    await socket.until("the next state", () =>
      socket.states.some((s) => (s as { n: number }).n === 2),
    );
    expect(changesOf(socket)).toEqual([{ n: 1 }, { n: 2 }]);
    await socket.close();
    await stop();
  });

  test("is closed for the agent when its gateway stops", async () => {
    const { log, options, host, gateway } = await start();
    const socket = await open(gateway.url, "_pk=gone");
    await gateway.stop();
    await socket.until("it is closed", () => socket.closed !== undefined);
    await pollUntil("onClose ran", () => log.some((line) => line.startsWith("close gone")));
    const another = await startTestGateway(options, "gateway-b");
    const seen = await (await fetch(`${another.url}/agents/sleeper-agent/s`)).json();
    expect(seen).toEqual({ state: { n: 0 }, connections: 0 });
    await another.stop();
    await host.stop();
  });

  test("belongs to the same agent through any gateway", async () => {
    const { options, gateway, stop } = await start();
    const another = await startTestGateway(options, "gateway-b");
    const [a, b] = [await open(gateway.url, "_pk=a"), await open(another.url, "_pk=b")];
    a.send("all");
    expect(await a.first(1)).toEqual(["all 2"]);
    expect(await b.first(1)).toEqual(["all 2"]);
    for (const each of [a, b]) await each.close();
    await another.stop();
    await stop();
  });
});
