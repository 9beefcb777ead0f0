/** A gateway's login in the wrong hands, on the bus: hosts read and answer nothing for it. */
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Agent } from "agents";
import { numberText } from "../../core/collections/NumberedTable.ts";
import { agentId, shardOf } from "../../schemas/Address.ts";
import type { Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import {
  encodeBatch,
  entryBytesMax,
  Kind,
  readBatch,
} from "../../services/nats/layout/batchEntries.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { openNats } from "../../services/nats/setup/openNats.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { makeNatsBus } from "../../services/nats/NatsBus.ts";
import {
  openConnection,
  type NatsConnectionShape,
} from "../../services/nats/client/NatsConnection.ts";
import { plain } from "../../services/nats/client/ReplyInbox.ts";
import { pollUntil } from "../kit/poll.ts";
import { startTestHost } from "../kit/system.ts";
import { useSystems } from "../system/kit.ts";

class Repeater extends Agent {
  override async onRequest(request: Request): Promise<Response> {
    return new Response(await request.text());
  }
}

const systems = useSystems();
const encoder = new TextEncoder();
const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const SECRET = "what another agent has stored";
/** More than the host has asked of anybody. */
const NUMBERS = 64;
const CALL_MS = 3_000;

let thief: NatsConnection;
let connection: NatsConnectionShape;
let nats: NatsShape;
let namespace: string;
let host: Awaited<ReturnType<typeof startTestHost>>;
let subjects: Subjects;

beforeAll(async () => {
  const options = systems.options({ agents: { Repeater } });
  namespace = options.namespace!;
  host = await startTestHost(options, "host-a");
  connection = await openConnection({ servers: systems.nats.url }, () => undefined);
  nats = await openNats(connection, new Subjects(namespace));
  subjects = nats.subjects;
  thief = await connect({ servers: systems.nats.url.replace("nats://", "") });
});

afterAll(async () => {
  await thief?.close();
  await connection?.close();
  await host?.stop();
});

describe("the blob that a call names as its body", () => {
  const id = agentId("Repeater", "a");
  const ask = async (blob: string): Promise<{ head: CallReply; body: string }> => {
    const call: Call = {
      kind: "fetch",
      id: blob,
      method: "POST",
      url: "http://agent/",
      headers: [],
      blob,
    };
    const subject = subjects.call(shardOf(id, nats.shards), id);
    return pollUntil("the host's answer", async () => {
      const answer = await thief.request(subject, encodeMessage(call), { timeout: CALL_MS });
      const { head, body } = decodeMessage<CallReply>(plain(answer.data));
      return head.kind === "notHere"
        ? { done: false as const, saw: head }
        : { done: true as const, value: { head, body: text(body) } };
    });
  };

  test("is read if it is where callers put bodies", async () => {
    await makeNatsBlobs(nats).put("calls/1", encoder.encode("hello"));
    expect(await ask("calls/1")).toMatchObject({ head: { kind: "response" }, body: "hello" });
  });

  test.each(["journal/Repeater/b/1", "inbox/Repeater/b/1", "answers/1", "callsand/1", ""])(
    "is an error if its name is %j",
    async (name) => {
      if (name !== "") await makeNatsBlobs(nats).put(name, encoder.encode(SECRET));
      const { head, body } = await ask(name);
      expect(head).toMatchObject({ kind: "error", message: "Internal Server Error" });
      expect(JSON.stringify(head) + body).not.toContain(SECRET);
    },
  );
});

describe("answers to a host's calls", () => {
  /** Sends what would answer every number at every address. */
  async function forge(addresses: Iterable<string>): Promise<void> {
    for (const address of addresses)
      for (let number = 0; number < NUMBERS; number++) {
        const data = encoder.encode("forged");
        const answer = { kind: Kind.Answer, id: number, subject: "", data };
        thief.publish(`${address}.${numberText(number)}`, data);
        thief.publish(`${address}.-`, encodeBatch([answer], entryBytesMax("", data)), {
          reply: `${namespace}.answer.gateway.thief.-`,
        });
      }
    await thief.flush();
  }

  test("are not accepted from a gateway that batches its calls with the host and answers its census", async () => {
    const bus = makeNatsBus(nats);
    const learned = new Set<string>();
    const learn = (reply: string | undefined): void =>
      void learned.add(reply?.slice(0, reply.lastIndexOf(".")) ?? "");
    const mine = `${namespace}.answer.gateway.thief`;
    const said: number[] = [];
    thief.subscribe(`${mine}.*`, {
      callback: (_error, { data, reply, subject }) => {
        learn(reply);
        if (subject.endsWith(".-")) readBatch(plain(data), ({ kind }) => void said.push(kind));
      },
    });
    // The host's: it listens on its shard, asks the gateway for its sockets, and calls another
    // host.
    const shard = subjects.callsOfShard(98 as never);
    const close = bus.subscribe(shard, ({ reply, data }) => bus.answer(reply!, data), {
      alone: true,
    });
    await nats.connection.client.flush();
    for (let n = 0; n < 20; n++)
      thief.publish(shard.replace(">", "A.a"), "x", { reply: `${mine}.${numberText(n)}` });
    await pollUntil("the offer of batches", () => said.includes(Kind.Offer));
    const hello = { kind: Kind.Hello, id: 0, subject: "", data: new Uint8Array(0) };
    for (const address of learned)
      if (address !== "")
        thief.publish(`${address}.-`, encodeBatch([hello], entryBytesMax("", hello.data)), {
          reply: `${mine}.-`,
        });
    await pollUntil("the welcome", () => said.includes(Kind.Welcome));
    const census = subjects.gateway("thief", "census");
    thief.subscribe(census, {
      callback: (_error, message) => {
        learn(message.reply);
        message.respond("sockets");
      },
    });
    await thief.flush();
    const sockets = await bus.request(census, new Uint8Array(1), { timeoutMs: CALL_MS });
    expect(sockets).toMatchObject({ _tag: "Reply" });

    const other = await connect({ servers: systems.nats.url.replace("nats://", "") });
    const calls: Array<() => void> = [];
    other.subscribe(subjects.callsOfShard(99 as never), {
      callback: (_error, message) => void calls.push(() => message.respond("genuine")),
    });
    await other.flush();
    const call = bus.request(
      subjects.callsOfShard(99 as never).replace(">", "A.a"),
      new Uint8Array(1),
      { timeoutMs: CALL_MS },
    );
    await pollUntil("the other host has the call", () => calls.length === 1);
    learned.delete("");
    expect(learned.size).toBeGreaterThan(0);
    await forge(learned);
    await connection.client.flush();
    calls[0]!();
    const answer = await call;
    expect(answer._tag === "Reply" && text(answer.data)).toBe("genuine");
    await other.close();
    await close();
  });
});
