/**
 * Batches of requests between two processes: the requests that one pass of the event loop sends to
 * another process, and the answers to them, travel as one message. With gateway and host in two
 * processes, the client and the broker would otherwise be paid twice for each webhook.
 *
 * A batch is published to the address of the other process's answers, with a token of its own.
 *
 * 1. Batches serve only subjects with one exclusive listener. The listener offers them to a process
 *    that asks it often. That process answers with a hello, and uses batches once it is welcomed,
 *    so both sides know the format and may publish to each other. Until then, and whenever in
 *    doubt, a request is sent separately, to its subject.
 * 2. Requests reach the listener in order, batched or not. Answers come in any order.
 * 3. Where the listener is gone nothing is delivered, and the request ends with `NoResponders`, by
 *    the process or, once it has ended, by the broker (`ReplyInbox`, rule 4).
 * 4. A frozen process would accept batches and never answer. A route is therefore forgotten when
 *    nobody is there, a request is lost, the connection breaks, or the signal fires that came with
 *    the request which the offer names (`BusShape.request`).
 * 5. The broker's permissions don't see the subjects in a batch. It carries only calls, which are
 *    allowed to all who may publish to a host's answer address.
 *
 * Fed by `NatsBus`. Batches are written with everything else that the pass sends (`gatherWrites`).
 */
import type { Msg } from "@nats-io/nats-core";
import type { BusMessage, BusReply } from "../../core/bus/Bus.ts";
import { numberOf, numberText } from "../../core/collections/NumberedTable.ts";
import type { NatsShape } from "./client/Nats.ts";
import { payloadBytesMax } from "./client/NatsConnection.ts";
import { encodeBatch, entryBytesMax, Kind, readBatch, type Entry } from "./layout/batchEntries.ts";
import {
  BATCH_TOKEN,
  isNoResponders,
  plain,
  type SendOptions,
  type Waiter,
} from "./client/ReplyInbox.ts";
import { SubjectTable } from "./SubjectTable.ts";

type FindListener = (subject: string) => ((message: BusMessage) => void) | undefined;

/** A batch of this size is sent at once, so that the receiver can begin (`gatherWrites`). */
const BATCH_BYTES_MAX = 32 * 1024;
/** A larger request or answer gains nothing from a batch. */
const ENTRY_BYTES_MAX = 16 * 1024;
/** Separate requests before batches are offered: commands of the CLI ask a few times only. */
const SEPARATE_REQUESTS_MIN = 16;
/** The shortest time between two offers to one process, which may not accept them. */
const OFFER_INTERVAL_MS = 1_000;
/** Processes that are remembered: more than an installation has at once. */
const PEERS_MAX = 1_000;
const EMPTY = new Uint8Array(0);

/** Another process that accepts batches: it has sent one. */
interface Peer {
  /** Start of the subjects of its answers, without the last dot. */
  readonly address: string;
  /** The batch that is being filled. */
  entries: Entry[];
  /** Sum of the entries' `entryBytesMax`. */
  bytes: number;
  /** The requests among the entries. */
  requests: BatchedRequest[];
  /** The broker knows no subscription at this address. */
  isGone: boolean;
  isWelcome: boolean;
  saidHello: boolean;
  /** What it offered before it sent a welcome, by pattern. */
  offered: Map<string, Route>;
}

/** The listener of a pattern, for as long as the signal has not fired (rule 4). */
interface Route {
  readonly peer: Peer;
  readonly signal?: AbortSignal;
}

/** Separate requests to one listener, by the address of the process that sent them. */
export type SeparateRequests = Map<string, { count: number; offeredMs: number }>;

export class RequestBatcher {
  private readonly peers = new Map<string, Peer>();
  /** The known listeners that accept batches, by pattern. */
  private readonly routes = new SubjectTable<Route>();
  /** Peers with entries that are not sent yet. */
  private filled: Peer[] = [];
  private readonly wake: () => void;

  /** `findListener`: looks up the exclusive listeners of this process. */
  constructor(
    private readonly nats: Pick<NatsShape, "connection" | "subjects" | "answers">,
    private readonly findListener: FindListener,
  ) {
    const { connection, answers } = nats;
    this.wake = connection.writes.before(() => this.flush());
    answers.onBatch = (message) => this.receive(message);
    connection.onChange((up) => {
      if (up) return;
      this.flush();
      this.peers.clear();
      this.routes.clear();
    });
  }

  /**
   * Returns undefined when the request has to be sent separately. All batches that were being
   * filled are sent first in that case (rule 2).
   */
  request(subject: string, data: Uint8Array, options: SendOptions): Promise<BusReply> | undefined {
    const peer = this.peerFor(subject);
    if (peer === undefined || !this.fits(subject, data)) {
      this.flush();
      return undefined;
    }
    return new Promise((resolve) => {
      const request = new BatchedRequest(this, peer, subject, resolve);
      const id = this.nats.answers.expect(request, options);
      if (id === undefined) return;
      request.id = id;
      this.add(peer, { kind: Kind.Request, id, subject, data }, request);
    });
  }

  /** `subject`: the request's reply subject. False: the answer has to be sent separately. */
  answer(subject: string, data: Uint8Array): boolean {
    if (this.peers.size === 0) return false;
    const address = addressOf(subject);
    const peer = this.peers.get(address);
    if (peer === undefined || !this.fits("", data)) return false;
    const id = numberOf(subject.slice(address.length + 1));
    if (Number.isNaN(id)) return false;
    this.add(peer, { kind: Kind.Answer, id, subject: "", data });
    return true;
  }

  /**
   * Counts a request that came separately and is not answered yet, and offers batches to a process
   * that sends many (rule 1). `pattern`: the listener's; `reply`: the request's reply subject.
   */
  countSeparate(pattern: string, reply: string, requests: SeparateRequests): void {
    if (!this.nats.subjects.isCall(pattern)) return;
    const address = addressOf(reply);
    let known = requests.get(address);
    if (known === undefined) {
      if (requests.size >= PEERS_MAX) requests.clear();
      requests.set(address, (known = { count: 0, offeredMs: -Infinity }));
    }
    if (++known.count < SEPARATE_REQUESTS_MIN) return;
    const nowMs = performance.now();
    if (nowMs - known.offeredMs < OFFER_INTERVAL_MS) return;
    known.offeredMs = nowMs;
    this.publish(
      address,
      [emptyEntry(Kind.Offer, numberOf(reply.slice(address.length + 1)), pattern)],
      entryBytesMax(pattern, EMPTY),
      BATCH_TOKEN,
    );
  }

  /** Rule 4: forgets that `peer` listens on the subject. */
  distrust(peer: Peer, subject: string): void {
    if (this.routes.find(subject)?.peer === peer) this.routes.forget(subject);
  }

  private peerFor(subject: string): Peer | undefined {
    const route = this.routes.find(subject);
    if (route === undefined || route.peer.isGone) return undefined;
    if (route.signal?.aborted !== true) return route.peer;
    this.routes.forget(subject);
    return undefined;
  }

  /** The broker reports that a batch reached no subscription. `first`: its first request's id. */
  undelivered(peer: Peer, first: number): void {
    peer.isGone = true;
    this.peers.delete(peer.address);
    for (const waiter of this.nats.answers.takeAll(
      (one) => one instanceof BatchedRequest && one.peer === peer && one.first === first,
    ))
      waiter.batchedReply?.(undefined);
  }

  /** Sends all batches that are being filled. */
  flush(): void {
    const { filled } = this;
    if (filled.length === 0) return;
    this.filled = [];
    for (const peer of filled) this.send(peer);
  }

  private fits(subject: string, data: Uint8Array): boolean {
    return entryBytesMax(subject, data) <= Math.min(ENTRY_BYTES_MAX, this.bytesMax - 1);
  }

  private add(peer: Peer, entry: Entry, request?: BatchedRequest): void {
    const bytes = entryBytesMax(entry.subject, entry.data);
    // One byte is reserved for the version.
    if (peer.bytes + bytes >= this.bytesMax) this.send(peer);
    else if (peer.entries.length === 0) this.filled.push(peer);
    peer.entries.push(entry);
    peer.bytes += bytes;
    if (request !== undefined) peer.requests.push(request);
    this.wake();
  }

  private send(peer: Peer): void {
    const { entries, bytes, requests } = peer;
    if (entries.length === 0) return;
    peer.entries = [];
    peer.bytes = 0;
    peer.requests = [];
    const first = requests[0]?.id;
    if (first !== undefined) for (const request of requests) request.first = first;
    this.publish(
      peer.address,
      entries,
      bytes,
      first === undefined ? BATCH_TOKEN : numberText(first),
    );
  }

  private publish(
    address: string,
    entries: ReadonlyArray<Entry>,
    bytes: number,
    token: string,
  ): void {
    const { connection, answers } = this.nats;
    if (connection.client.isClosed()) return;
    connection.client.publish(`${address}.${BATCH_TOKEN}`, encodeBatch(entries, bytes), {
      reply: `${answers.address}.${token}`,
    });
  }

  private receive({ data, reply = "" }: Msg): void {
    // The broker reports that a batch without requests reached no subscription. Nothing awaits it.
    if (data.length === 0) return;
    const { connection, subjects } = this.nats;
    if (!subjects.isAnswerAddress(reply))
      return connection.log("warn", "a batch of requests was dropped", {
        why: "nobody receives answers there",
        reply,
      });
    const peer = this.peer(addressOf(reply));
    if (!readBatch(plain(data), (entry) => this.take(peer, entry)))
      connection.log("warn", "a batch of requests could not be decoded to its end", {
        from: reply,
      });
  }

  private get bytesMax(): number {
    return Math.min(BATCH_BYTES_MAX, payloadBytesMax(this.nats.connection));
  }

  private peer(address: string): Peer {
    let peer = this.peers.get(address);
    if (peer === undefined) {
      if (this.peers.size >= PEERS_MAX) {
        this.flush();
        this.peers.clear();
        this.routes.clear();
      }
      peer = {
        address,
        entries: [],
        bytes: 0,
        requests: [],
        isGone: false,
        isWelcome: false,
        saidHello: false,
        offered: new Map(),
      };
      this.peers.set(address, peer);
    }
    return peer;
  }

  private take(peer: Peer, { kind, id, subject, data }: Entry): void {
    switch (kind) {
      case Kind.Request: {
        // Rule 5.
        const isCall = this.nats.subjects.isCall(subject);
        const handler = isCall ? this.findListener(subject) : undefined;
        const reply = `${peer.address}.${numberText(id)}`;
        if (handler !== undefined) return handler({ subject, data, reply });
        return this.add(peer, emptyEntry(Kind.NoListener, id));
      }
      case Kind.Answer:
        return this.nats.answers.take(id)?.batchedReply?.(data);
      case Kind.NoListener:
        return this.nats.answers.take(id)?.batchedReply?.(undefined);
      case Kind.Offer: {
        // It comes from an older release, which names no request, or it is late: another offer will
        // come.
        const asked = this.nats.answers.underWay(id);
        if (asked === undefined || !this.nats.subjects.isCall(subject)) return;
        if (peer.isWelcome) return this.routes.set(subject, { peer, ...asked });
        peer.offered.set(subject, { peer, ...asked });
        if (peer.saidHello) return;
        peer.saidHello = true;
        return this.add(peer, emptyEntry(Kind.Hello));
      }
      case Kind.Hello:
        return this.add(peer, emptyEntry(Kind.Welcome));
      case Kind.Welcome:
        peer.isWelcome = true;
        for (const [pattern, route] of peer.offered) this.routes.set(pattern, route);
        peer.offered.clear();
    }
  }
}

/** An entry without data. */
const emptyEntry = (kind: number, id = 0, subject = ""): Entry => ({
  kind,
  id,
  subject,
  data: EMPTY,
});

/** The address of the process that receives replies on the subject. */
const addressOf = (subject: string): string => subject.slice(0, subject.lastIndexOf("."));

class BatchedRequest implements Waiter {
  id = 0;
  /** The id of its batch's first request; 0 until the batch is sent. */
  first = 0;

  constructor(
    private readonly batcher: RequestBatcher,
    readonly peer: Peer,
    readonly subject: string,
    private readonly resolve: (answer: BusReply) => void,
  ) {}

  /** A separate reply: a large answer, or the broker's report on the whole batch. */
  reply(message: Msg): boolean {
    if (isNoResponders(message)) this.batcher.undelivered(this.peer, this.first);
    else this.batchedReply(plain(message.data));
    return true;
  }

  batchedReply(data: Uint8Array | undefined): void {
    if (data !== undefined) return this.resolve({ _tag: "Reply", data });
    this.batcher.distrust(this.peer, this.subject);
    this.resolve({ _tag: "NoResponders" });
  }

  lost(): void {
    this.batcher.distrust(this.peer, this.subject);
    this.resolve({ _tag: "TimedOut" });
  }
}
