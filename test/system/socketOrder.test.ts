/** One client's messages run once and in order; `test/faults/socketOrder.test.ts` kills hosts. */
import { connect, errors, type NatsConnection } from "@nats-io/transport-node";
import { describe, expect, test } from "vitest";
import { Agent, callable, type Connection } from "agents";
import { agentId, shardOf } from "../../schemas/Address.ts";
import type { Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { pollUntil } from "../kit/poll.ts";
import { startTestGateway, startTestHost } from "../kit/system.ts";
import { makeLatch, TestSocket, useSystems, type Latch } from "./kit.ts";

interface Env {
  readonly heard: string[];
  readonly latch: Latch;
}

class TapeAgent extends Agent<Env, { readonly heard: ReadonlyArray<number> }> {
  static override options = { hibernateAfterSeconds: 0.2 };
  override initialState = { heard: [] };

  override async onStart() {
    if (this.name.startsWith("slow")) await this.env.latch.opened;
  }
  override onMessage(connection: Connection<number>, message: string | ArrayBuffer) {
    const n = typeof message === "string" ? Number(message.split(" ")[0]) : message.byteLength;
    this.env.heard.push(`${n} after ${connection.state ?? 0}`);
    connection.setState(n);
    this.setState({ heard: [...this.state.heard, n] });
    if (String(message).endsWith("abort")) this.ctx.abort("as a client wanted");
    if (String(message).endsWith("bye")) connection.close(4000, "as asked");
  }
  override onClose(_connection: Connection, code: number) {
    this.env.heard.push(`close ${code}`);
  }
  override onError() {
    // What an abort breaks off.
  }
  override onRequest() {
    return Response.json(this.state.heard);
  }
  connections() {
    return [...this.getConnections()].length;
  }
  @callable()
  echo(n: number) {
    return n;
  }
}

const systems = useSystems();
const COUNT = 200;
const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i + 1);

async function start() {
  const env = { heard: [] as string[], latch: makeLatch() };
  const options = systems.options({ agents: { TapeAgent }, env: { ...env } });
  const host = await startTestHost(options, "host-a");
  const gateway = await startTestGateway(options, "gateway-a");
  const open = async (name: string) => {
    const socket = await TestSocket.open(`${gateway.url}/agents/tape-agent/${name}`);
    await socket.first(3);
    return socket;
  };
  const tape = async (name: string) =>
    (await (await fetch(`${gateway.url}/agents/tape-agent/${name}`)).json()) as number[];
  const whole = (name: string, count = COUNT) =>
    pollUntil(`${count} messages are on the tape`, async () => {
      const found = await tape(name);
      return new Set(found).size >= count
        ? { done: true, value: found }
        : { done: false, saw: found };
    });
  const stop = async () => {
    await gateway.stop();
    await host.stop();
  };
  return { ...env, options, host, gateway, open, tape, whole, stop };
}

describe("messages sent at once", () => {
  test("are processed in order, each sees what the previous one set, and the close comes last", async () => {
    const { open, whole, heard, stop } = await start();
    const socket = await open("a");
    for (const n of upTo(COUNT)) socket.send(`${n}`);
    await socket.close(4005);
    expect(await whole("a")).toEqual(upTo(COUNT));
    await pollUntil("onClose ran", () => heard.at(-1) === "close 4005");
    expect(heard).toEqual([...upTo(COUNT).map((n) => `${n} after ${n - 1}`), "close 4005"]);
    await stop();
  });

  test("keep their order when large ones, which travel differently, are among them", async () => {
    const { open, whole, stop } = await start();
    const socket = await open("large");
    const bytes = 1_048_100;
    for (const n of upTo(20)) socket.send(n % 5 === 0 ? new Uint8Array(bytes + n) : `${n}`);
    expect(await whole("large", 20)).toEqual(upTo(20).map((n) => (n % 5 === 0 ? bytes + n : n)));
    await socket.close();
    await stop();
  });

  test("wake a hibernating agent, and wait for one that starts slowly", async () => {
    const { open, whole, heard, host, latch, stop } = await start();
    const socket = await open("sleeps");
    for (const from of [0, 50, 100]) {
      await pollUntil("it hibernates", () => host.host.agentsActive === 0);
      for (const n of upTo(50)) socket.send(`${from + n}`);
      await whole("sleeps", from + 50);
    }
    expect(heard).toEqual(upTo(150).map((n) => `${n} after ${n - 1}`));
    await socket.close();
    const opening = open("slow");
    latch.open();
    const slow = await opening;
    for (const n of upTo(50)) slow.send(`${n}`);
    expect(await whole("slow", 50)).toEqual(upTo(50));
    await slow.close();
    await stop();
  });

  test("keep their order when their agent is discarded; stored ones are not lost", async () => {
    const { open, whole, stop } = await start();
    const socket = await open("thrown");
    for (const n of upTo(COUNT)) socket.send(n % 40 === 20 ? `${n} abort` : `${n}`);
    // An abort is answered as an error, which ends the socket: what came after it is the client's
    // to send again.
    await socket.until("it is closed", () => socket.closed !== undefined);
    const found = await whole("thrown", 1);
    expect(found).toEqual(upTo(found.length));
    await stop();
  });

  test("are processed by the next host in order, each once, when their host hands over", async () => {
    const { open, whole, heard, options, host, gateway } = await start();
    const socket = await open("moves");
    const other = await startTestHost(options, "host-b");
    for (const n of upTo(COUNT)) socket.send(`${n}`);
    await pollUntil("it is in the middle", () => heard.length > 5);
    const stopped = host.stop();
    for (const n of upTo(COUNT)) socket.send(`${COUNT + n}`);
    await stopped;
    expect(await whole("moves", 2 * COUNT)).toEqual(upTo(2 * COUNT));
    expect(heard).toEqual(upTo(2 * COUNT).map((n) => `${n} after ${n - 1}`));
    await socket.close();
    await gateway.stop();
    await other.stop();
  });

  test("are not processed twice when the broker dies meanwhile", async () => {
    const { open, whole, heard, stop } = await start();
    const socket = await open("cut");
    for (const n of upTo(20)) socket.send({ type: "rpc", id: `${n}`, method: "echo", args: [n] });
    socket.send("1");
    await pollUntil("the first is taken", () => heard.length > 0);
    await systems.nats.kill();
    for (const n of upTo(COUNT - 1)) socket.send(`${n + 1}`);
    await systems.nats.restart();
    const found = await whole("cut");
    // An append whose outcome is not known may have been stored, and its agent is asked again.
    const firsts = found.filter((n, i) => found.indexOf(n) === i);
    expect(firsts).toEqual(upTo(COUNT));
    await socket.close();
    await stop();
  });
});

describe("an agent", () => {
  test("accepts a message only in order, and confirms one that it already has", async () => {
    const { heard, options, stop } = await start();
    const client = await connect({ servers: systems.nats.url.replace("nats://", "") });
    const ask = caller(client, options.namespace!);
    const socket = { gateway: "g", sid: "s", id: "c", url: "http://x/", headers: [] };
    const message = (number: number) =>
      ask({ kind: "message", gateway: "g", sid: "s", text: true, number }, `${number}`);
    expect(await message(1)).toEqual({ kind: "unknownSocket" });
    expect(await ask({ kind: "connect", socket })).toMatchObject({ kind: "connected" });
    expect(await message(2)).toEqual({ kind: "unknownSocket" });
    expect(await message(1)).toEqual({ kind: "taken", next: 2 });
    expect(await message(2)).toEqual({ kind: "taken", next: 3 });
    expect(await message(1)).toEqual({ kind: "taken", next: 2 });
    expect(await message(4)).toEqual({ kind: "unknownSocket" });
    // Its gateway knows that 3 is taken, by an owner of before.
    await ask({ kind: "resume", socket: { ...socket, next: 4 } });
    expect(await message(4)).toEqual({ kind: "taken", next: 5 });
    // And it never goes back.
    await ask({ kind: "resume", socket: { ...socket, next: 2 } });
    expect(await message(4)).toEqual({ kind: "taken", next: 5 });
    expect(heard).toEqual(["1 after 0", "2 after 1", "4 after 2"]);
    await client.close();
    await stop();
  });

  test("answers at once if its kind is unknown or invalid", async () => {
    const { options, stop } = await start();
    const client = await connect({ servers: systems.nats.url.replace("nats://", "") });
    const ask = caller(client, options.namespace!);
    const refusal = { kind: "error", name: "Error", message: "Internal Server Error" };
    expect(await ask({ kind: "tomorrow" } as object as Call)).toEqual(refusal);
    const reply = await client.request(ask.subject, "no frame");
    expect(decodeMessage<CallReply>(reply.data).head).toEqual(refusal);
    await client.close();
    await stop();
  });

  test("repeats how a socket ended when asked again, without running anything twice", async () => {
    const { heard, options, host, stop } = await start();
    const client = await connect({ servers: systems.nats.url.replace("nats://", "") });
    const ask = caller(client, options.namespace!);
    const socket = { gateway: "g", sid: "s", id: "c", url: "http://x/", headers: [] };
    const at = { gateway: "g", sid: "s" } as const;
    const abort = () => ask({ kind: "message", ...at, text: true, number: 1 }, "1 abort");
    const close = () => ask({ kind: "close", ...at, code: 1000, reason: "", wasClean: true });
    await ask({ kind: "connect", socket });
    const error = await abort();
    expect(error).toMatchObject({ kind: "error" });
    expect(await abort()).toEqual(error);
    // Its gateway closes it, and says no more.
    const connections = await ask({ kind: "rpc", method: "connections", args: [] });
    expect(connections).toEqual({ kind: "result", value: 0 });
    // Its gateway tells of it anew: it is not over.
    await ask({ kind: "resume", socket: { ...socket, next: 2 } });
    // The second is asked while the first runs; the third when the agent has left memory.
    expect(await Promise.all([close(), close()])).toEqual([{ kind: "taken" }, { kind: "taken" }]);
    await pollUntil("it hibernates", () => host.host.agentsActive === 0);
    expect(await close()).toEqual({ kind: "taken" });
    expect(heard).toEqual(["1 after 0", "close 1000"]);
    await client.close();
    await stop();
  });
});

/** Calls the agent as a gateway does. */
function caller(client: NatsConnection, namespace: string) {
  const id = agentId("TapeAgent", "direct");
  const subjects = new Subjects(namespace);
  const subject = subjects.call(shardOf(id, SHARDS), id);
  const ask = async (call: Call, body = ""): Promise<CallReply> => {
    const data = encodeMessage(call, new TextEncoder().encode(body));
    return pollUntil("the host has the shard", async () => {
      const reply = await client.request(subject, data).catch((error: unknown) => {
        if (isUnheard(error)) return undefined;
        throw error;
      });
      const head = reply && decodeMessage<CallReply>(reply.data).head;
      const isOwned = head !== undefined && head.kind !== "notHere";
      return isOwned ? { done: true, value: head } : { done: false, saw: head };
    });
  };
  return Object.assign(ask, { subject });
}
/** The client wraps the broker's word in an error of the request's. */
const isUnheard = (error: unknown): boolean =>
  error instanceof errors.NoRespondersError ||
  (error instanceof errors.RequestError && error.isNoResponders());
/** As `useSystems` makes them. */
const SHARDS = 4;
