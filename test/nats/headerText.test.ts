/** Lines of a header block, looked up in its text: as the installed client reads them. */
import { headers, type Msg } from "@nats-io/nats-core";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { expect, test } from "vitest";
import { HeaderText } from "../../services/nats/client/HeaderText.ts";
import { startNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";

const NAMES = [
  "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending", "Nats-Last-Sequence", "Own", "own", "Empty",
  "Twice", "Umlaut", "wn", "Nothing",
]; // prettier-ignore

/** What the text reads, and what the client reads. */
function both(message: Msg): readonly [unknown, unknown] {
  const text = HeaderText.of(message);
  const client = message.headers;
  return [
    text && { code: text.code, values: NAMES.map((name) => text.get(name)) },
    client && { code: client.code, values: NAMES.map((name) => client.get(name) || undefined) },
  ];
}

test("headers of stored messages, statuses, and bare or unusual ones are parsed as the client parses them", async () => {
  const nats = await startNats();
  const client = await connect({ servers: nats.url });
  try {
    const manager = await jetstreamManager(client);
    await manager.streams.add({ name: "S", subjects: ["s.>"], allow_direct: true });
    const stream = jetstream(client);
    const own = headers();
    for (const [name, value] of [
      ["Own", "one: two"], ["Empty", ""], ["Twice", "1"], ["Twice", "2"], ["Umlaut", "Müller, NATS/1.0"], ["O", "wn:"],
    ] as const) own.append(name, value); // prettier-ignore
    await stream.publish("s.a", "data\r\n\r\nNATS/1.0\r\nOwn: not a header\r\n\r\n", {
      headers: own,
    });
    await stream.publish("s.ü", "of a subject that is not ASCII", { headers: own });
    await stream.publish("s.a", "");
    const seen: Msg[] = [];
    const callback = (_error: unknown, message: Msg): void => void seen.push(message);
    client.subscribe("answers", { callback });
    client.subscribe("plain.>", { callback });
    const ask = (query: object): void =>
      client.publish("$JS.API.DIRECT.GET.S", JSON.stringify(query), { reply: "answers" });
    ask({ seq: 1, batch: 10, next_by_subj: "s.>" });
    ask({ seq: 77 });
    ask({ last_by_subj: "s.none" });
    client.publish("plain.none", "no header at all");
    client.publish("plain.both", "and a reply", { headers: own, reply: "somewhere.else" });
    client.publish("plain.ü", "of a subject that is not ASCII");
    client.publish("$JS.API.DIRECT.GET.UNKNOWN", "{}", { reply: "answers" });
    await pollUntil("all have come", () => seen.length === 10 || { done: false, saw: seen.length });
    const codes = seen.map((message) => {
      const [text, headersOfClient] = both(message);
      expect(text).toEqual(headersOfClient);
      return (text as { readonly code: number } | undefined)?.code;
    });
    expect(codes.filter((code) => code === 0)).toHaveLength(4);
    expect(codes.filter((code) => code === undefined)).toHaveLength(2);
    expect(codes).toEqual(expect.arrayContaining([204, 404, 503]));
  } finally {
    await client.close();
    await nats.stop();
  }
});

test("most headers are parsed without the client's own parser", async () => {
  const nats = await startNats();
  const client = await connect({ servers: nats.url });
  try {
    const seen: Msg[] = [];
    client.subscribe("plain", { callback: (_error, message) => void seen.push(message) });
    const own = headers();
    own.append("Own", "1");
    client.publish("plain", "x", { headers: own });
    await pollUntil("it has come", () => seen.length === 1);
    const message = seen[0]!;
    Object.defineProperty(message, "headers", {
      get: () => {
        throw new Error("asked for");
      },
    });
    expect(HeaderText.of(message)?.get("Own")).toBe("1");
    // A client whose messages do not say how long they are.
    const without = { subject: "plain", data: message.data, headers: own } as unknown as Msg;
    expect(HeaderText.of(without)?.get("Own")).toBe("1");
  } finally {
    await client.close();
    await nats.stop();
  }
});
