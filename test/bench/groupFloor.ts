/**
 * The least that one hot agent must cost: the floor's pipeline, where what has arrived for the
 * agent while its last event was being stored goes into one event. `groupFloor <port> <nats>
 * <secret>`: uWebSockets.js, HMAC over the raw body, a message in the inbox for each webhook
 * (acked), one event a group (acked, with its expected sequence), an ack and 200 for each. No
 * SQLite, no errors, no deduplication.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { jetstream, jetstreamManager, type JsMsg } from "@nats-io/jetstream";
import { connect, headers } from "@nats-io/transport-node";
import { loadUws } from "../../services/uws/loadUws.ts";

const [, , port, servers, secret] = process.argv;
/** More than can be under way. */
const MESSAGES_AHEAD = 2_000;
const INBOX = "HOT_INBOX";
const JOURNAL = "HOT_JOURNAL";
const JOURNAL_SUBJECT = "hot.journal";

interface Ack {
  readonly seq: number;
  readonly error?: { readonly description: string };
}

const uws = loadUws();
if ("_tag" in uws) throw uws;
const client = await connect({ servers: servers!, noAsyncTraces: true });
const manager = await jetstreamManager(client);
const stream = { storage: "file", allow_direct: true } as const;
await manager.streams.add({ ...stream, name: INBOX, subjects: ["hot.in"] });
await manager.streams.add({ ...stream, name: JOURNAL, subjects: [JOURNAL_SUBJECT] });
await manager.consumers.add(INBOX, {
  durable_name: "hot",
  ack_policy: "explicit",
  max_ack_pending: MESSAGES_AHEAD,
});

// Acks through one wildcard inbox with integer ids, as the floor's `--raw` has them.
const inbox = `_INBOX.hot${process.pid}`;
const waiting = new Map<string, (ack: Ack) => void>();
let ids = 0;
client.subscribe(`${inbox}.*`, {
  callback: (_, message) => {
    const id = message.subject.slice(inbox.length + 1);
    waiting.get(id)?.(message.json<Ack>());
    waiting.delete(id);
  },
});
const publish = (subject: string, data: Uint8Array, lastSeq?: number): Promise<number> =>
  new Promise((resolve, reject) => {
    const id = (++ids).toString(36);
    waiting.set(id, (ack) =>
      ack.error === undefined ? resolve(ack.seq) : reject(new Error(ack.error.description)),
    );
    const options = { reply: `${inbox}.${id}` };
    if (lastSeq === undefined) return client.publish(subject, data, options);
    const block = headers();
    block.set("Nats-Expected-Last-Subject-Sequence", String(lastSeq));
    client.publish(subject, data, { ...options, headers: block });
  });

const answers = new Map<number, () => void>();
const early = new Set<number>();
const answer = (seq: number): void => {
  const done = answers.get(seq);
  if (done === undefined) early.add(seq);
  else done();
  answers.delete(seq);
};

let queue: JsMsg[] = [];
let busy = false;
let lastSeq = 0;
let count = 0;
async function drain(): Promise<void> {
  busy = true;
  while (queue.length > 0) {
    const group = queue;
    queue = [];
    const events = group.map((message) => message.string());
    for (const event of events) JSON.parse(event);
    count += group.length;
    const event = `{"state":{"count":${count}},"events":[${events.join(",")}]}`;
    lastSeq = await publish(JOURNAL_SUBJECT, Buffer.from(event), lastSeq);
    for (const message of group) {
      message.ack();
      answer(message.seq);
    }
  }
  busy = false;
}
const consumer = await jetstream(client).consumers.get(INBOX, "hot");
await consumer.consume({
  max_messages: MESSAGES_AHEAD,
  callback: (message) => {
    queue.push(message);
    if (!busy) void drain();
  },
});

uws
  .App()
  .post("/*", (response, request) => {
    const signature = Buffer.from(request.getHeader("x-hub-signature-256"));
    const pieces: Buffer[] = [];
    let gone = false;
    response.onAborted(() => (gone = true));
    const end = (status: string, text: string): void => {
      if (!gone) response.cork(() => response.writeStatus(status).end(text));
    };
    response.onData((chunk, last) => {
      pieces.push(Buffer.from(chunk.slice(0)));
      if (!last) return;
      const body = Buffer.concat(pieces);
      const mac = Buffer.from(`sha256=${createHmac("sha256", secret!).update(body).digest("hex")}`);
      if (mac.length !== signature.length || !timingSafeEqual(mac, signature))
        return end("401 Unauthorized", "Invalid signature");
      publish("hot.in", body).then(
        (seq) => {
          const ok = (): void => end("200 OK", "OK");
          if (early.delete(seq)) ok();
          else answers.set(seq, ok);
        },
        (error: unknown) => end("503 Service Unavailable", String(error)),
      );
    });
  })
  .listen("127.0.0.1", Number(port), (listening) => {
    if (!listening) throw new Error(`port ${port} is taken`);
    console.log("listening");
  });
