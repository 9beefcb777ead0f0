/**
 * What one pass of the event loop asks of another process, and answers it, goes as one message: a parcel. Gateway and host in two
 * processes would else pay the client and the broker twice for each webhook; so a dozen webhooks pay once.
 *
 * A parcel goes to the subject under which the other process takes its answers (`ReplyInbox`), with a last token of its own.
 *
 * 1. Only for subjects on which one process listens alone. It offers parcels to who asks it often; who asks says hello, and
 *    uses them when it is welcome: so both know the format, and may publish to each other. Until then, and whenever in
 *    doubt, a request goes by itself, on its subject.
 * 2. Requests reach the listener in the order in which they were made, parcels or not. Answers come when they come.
 * 3. Where nobody listens any more nothing is delivered, and that is the answer: `NoResponders`, from the process or, when it is
 *    gone, from the broker. What was learned is forgotten then, and when a request is lost, the connection is, or the
 *    listener has moved (`BusShape.moved`): a frozen process would take parcels and not answer them. One that ends answers
 *    what reaches it until the broker knows (`ReplyInbox`, 4).
 *
 * Fed by `NatsBus`. Written out with everything else that the pass sends (`gatherWrites`).
 */
import type { Msg } from "@nats-io/nats-core";
import type { BusMessage, BusReply } from "../../core/bus/Bus.ts";
import { numberOf, numberText } from "../../core/collections/NumberedTable.ts";
import { payloadBytesMax, type NatsShape } from "./Nats.ts";
import { encodeParcel, entryBytesMax, Kind, readParcel, type Entry } from "./batchEntries.ts";
import {
  isNoResponders,
  PARCEL_TOKEN,
  plain,
  type SendOptions,
  type Waiter,
} from "./ReplyInbox.ts";
import { SubjectTable } from "./SubjectTable.ts";

type Find = (subject: string) => ((message: BusMessage) => void) | undefined;

/** A parcel that is larger is sent at once: who is to read it can begin (`gatherWrites`). */
const PARCEL_BYTES_MAX = 32 * 1024;
/** More gain nothing from company. */
const ENTRY_BYTES_MAX = 16 * 1024;
/** Requests by themselves before parcels are offered: command lines ask now and then. */
const ASKED_MIN = 16;
/** Then no more often than this: an offer may be declined. */
const OFFER_INTERVAL_MS = 1_000;
/** Processes that are remembered: more than an installation has at once. */
const PEERS_MAX = 1_000;
const NOTHING = new Uint8Array(0);

/** Another process that takes parcels: it has sent one. */
interface Peer {
  /** Start of the subjects of its answers, without the last dot. */
  readonly address: string;
  entries: Entry[];
  bytes: number;
  /** The requests among the entries. */
  asking: Asking[];
  /** The broker knows nobody of this address. */
  isGone: boolean;
  isWelcome: boolean;
  saidHello: boolean;
  /** Patterns that it offered before it said welcome. */
  offered: string[];
}

/** How often each process asked by itself, of one listener: by its address. */
export type AskedBy = Map<string, { count: number; offeredMs: number }>;

export class RequestBatcher {
  private readonly nats: Pick<NatsShape, "connection" | "answers">;
  private readonly find: Find;
  private readonly bytesMax: number;
  private readonly peers = new Map<string, Peer>();
  /** Who listens on what, as far as it is known and takes parcels. */
  private readonly routes = new SubjectTable<Peer>();
  /** Those with entries. */
  private filled: Peer[] = [];
  private readonly wake: () => void;

  /** `find`: who listens alone in this process. */
  constructor(nats: RequestBatcher["nats"], find: Find) {
    const { connection, answers } = nats;
    this.nats = nats;
    this.find = find;
    this.bytesMax = Math.min(PARCEL_BYTES_MAX, payloadBytesMax(connection));
    this.wake = connection.writes.before(() => this.flush());
    answers.onParcel = (message) => this.receive(message);
    connection.onChange((up) => {
      if (up) return;
      this.flush();
      this.peers.clear();
      this.routes.clear();
    });
  }

  /** Undefined: it has to go by itself. All that was to go by parcel before it is on its way then (2). */
  request(subject: string, data: Uint8Array, options: SendOptions): Promise<BusReply> | undefined {
    const peer = this.routes.find(subject);
    if (peer === undefined || peer.isGone || !this.fits(subject, data)) {
      this.flush();
      return undefined;
    }
    return new Promise((resolve) => {
      const asking = new Asking(this, peer, subject, resolve);
      const id = this.nats.answers.expect(asking, options);
      if (id === undefined) return;
      asking.id = id;
      this.add(peer, { kind: Kind.Request, id, subject, data }, asking);
    });
  }

  /** `subject`: where an answer is awaited. False: it has to go by itself. */
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

  /** A request came by itself (1). `pattern`: of the listener; `reply`: where its answer is awaited. */
  asked(pattern: string, reply: string, by: AskedBy): void {
    const address = addressOf(reply);
    let known = by.get(address);
    if (known === undefined) {
      if (by.size >= PEERS_MAX) by.clear();
      by.set(address, (known = { count: 0, offeredMs: -Infinity }));
    }
    if (++known.count < ASKED_MIN) return;
    const nowMs = performance.now();
    if (nowMs - known.offeredMs < OFFER_INTERVAL_MS) return;
    known.offeredMs = nowMs;
    this.publish(
      address,
      [word(Kind.Offer, 0, pattern)],
      entryBytesMax(pattern, NOTHING),
      PARCEL_TOKEN,
    );
  }

  /** As `BusShape.moved`. */
  forget(pattern: string): void {
    this.routes.delete(pattern);
  }

  /** Rule 3: who listens on the subject may not be this one any more. */
  distrust(peer: Peer, subject: string): void {
    if (this.routes.find(subject) === peer) this.routes.forget(subject);
  }

  /** The broker says that a parcel reached nobody. `first`: of its requests. */
  undelivered(peer: Peer, first: number): void {
    peer.isGone = true;
    this.peers.delete(peer.address);
    for (const waiter of this.nats.answers.takeAll(
      (one) => one instanceof Asking && one.peer === peer && one.first === first,
    ))
      waiter.inParcel?.(undefined);
  }

  flush(): void {
    const { filled } = this;
    if (filled.length === 0) return;
    this.filled = [];
    for (const peer of filled) this.send(peer);
  }

  private fits(subject: string, data: Uint8Array): boolean {
    return entryBytesMax(subject, data) <= Math.min(ENTRY_BYTES_MAX, this.bytesMax - 1);
  }

  private add(peer: Peer, entry: Entry, asking?: Asking): void {
    const bytes = entryBytesMax(entry.subject, entry.data);
    // One is left for the version.
    if (peer.bytes + bytes >= this.bytesMax) this.send(peer);
    else if (peer.entries.length === 0) this.filled.push(peer);
    peer.entries.push(entry);
    peer.bytes += bytes;
    if (asking !== undefined) peer.asking.push(asking);
    this.wake();
  }

  private send(peer: Peer): void {
    const { entries, bytes, asking } = peer;
    if (entries.length === 0) return;
    peer.entries = [];
    peer.bytes = 0;
    peer.asking = [];
    const first = asking[0]?.id;
    if (first !== undefined) for (const one of asking) one.first = first;
    this.publish(
      peer.address,
      entries,
      bytes,
      first === undefined ? PARCEL_TOKEN : numberText(first),
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
    connection.client.publish(`${address}.${PARCEL_TOKEN}`, encodeParcel(entries, bytes), {
      reply: `${answers.address}.${token}`,
    });
  }

  private receive({ data, reply = "" }: Msg): void {
    // The broker's word that an answer has reached nobody: nobody waits for it then.
    if (data.length === 0) return;
    const peer = this.peer(addressOf(reply));
    if (!readParcel(plain(data), (entry) => this.take(peer, entry)))
      this.nats.connection.log("warn", "a parcel could not be read to its end", { from: reply });
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
        asking: [],
        isGone: false,
        isWelcome: false,
        saidHello: false,
        offered: [],
      };
      this.peers.set(address, peer);
    }
    return peer;
  }

  private take(peer: Peer, { kind, id, subject, data }: Entry): void {
    switch (kind) {
      case Kind.Request: {
        const handler = this.find(subject);
        const reply = `${peer.address}.${numberText(id)}`;
        if (handler !== undefined) return handler({ subject, data, reply });
        return this.add(peer, word(Kind.Nobody, id));
      }
      case Kind.Answer:
        return this.nats.answers.take(id)?.inParcel?.(data);
      case Kind.Nobody:
        return this.nats.answers.take(id)?.inParcel?.(undefined);
      case Kind.Offer:
        if (peer.isWelcome) return this.routes.set(subject, peer);
        peer.offered.push(subject);
        if (peer.saidHello) return;
        peer.saidHello = true;
        return this.add(peer, word(Kind.Hello));
      case Kind.Hello:
        return this.add(peer, word(Kind.Welcome));
      case Kind.Welcome:
        peer.isWelcome = true;
        for (const pattern of peer.offered) this.routes.set(pattern, peer);
        peer.offered = [];
    }
  }
}

/** An entry without data. */
const word = (kind: number, id = 0, subject = ""): Entry => ({ kind, id, subject, data: NOTHING });

/** Of the process whose answers come to the subject. */
const addressOf = (subject: string): string => subject.slice(0, subject.lastIndexOf("."));

/** A request that went by parcel. */
class Asking implements Waiter {
  private readonly parcels: RequestBatcher;
  private readonly resolve: (answer: BusReply) => void;
  readonly peer: Peer;
  readonly subject: string;
  id = 0;
  /** Of its parcel's requests; 0 until that is sent. */
  first = 0;

  constructor(
    parcels: RequestBatcher,
    peer: Peer,
    subject: string,
    resolve: (answer: BusReply) => void,
  ) {
    this.parcels = parcels;
    this.peer = peer;
    this.subject = subject;
    this.resolve = resolve;
  }

  /** By itself: it was large, or it is the broker's word on the whole parcel. */
  reply(message: Msg): boolean {
    if (isNoResponders(message)) this.parcels.undelivered(this.peer, this.first);
    else this.inParcel(plain(message.data));
    return true;
  }

  inParcel(data: Uint8Array | undefined): void {
    if (data !== undefined) return this.resolve({ _tag: "Reply", data });
    this.parcels.distrust(this.peer, this.subject);
    this.resolve({ _tag: "NoResponders" });
  }

  lost(): void {
    this.parcels.distrust(this.peer, this.subject);
    this.resolve({ _tag: "TimedOut" });
  }
}
