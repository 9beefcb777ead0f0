/**
 * The network between one process and the broker: a TCP proxy for each nats-server, whose
 * connections can be dropped, delayed, or cut (bytes stay where they are, the connection looks
 * alive), and which can deliver inputs twice or in another order. Counts what it did.
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import type { Random } from "../../sim/rig/Random.ts";
import { Frames, type Frame } from "./Frames.ts";

/** What is done to inputs on their way to a process. */
export interface Unruly {
  readonly random: Random;
  /** The share of inputs that are delivered twice. */
  readonly twiceShare: number;
  /** The share of inputs that are delivered after later ones. */
  readonly lateShare: number;
  /** The second or late delivery is delayed by at most this time. */
  readonly lateMsMax: number;
}

export class Link {
  /** Comma-separated, one a server. */
  url = "";
  /** Connections taken so far: more than one a server means reconnects. */
  accepted = 0;
  /** Bytes that were swallowed by a cut. */
  swallowed = 0;
  /** Pieces that came late. */
  delayed = 0;
  /** Inputs that came again. */
  repeated = 0;
  /** Inputs that are delivered later. */
  held = 0;
  /** Inputs that came after one that was sent later. */
  overtaken = 0;
  /** Nothing goes through. */
  isCut = false;
  private speaksToClients = true;
  private readonly servers: Server[] = [];
  private readonly sockets = new Set<Socket>();
  private delayMs = 0;
  private unruly: Unruly | undefined;

  /** To those ports, which speak with clients, or with one another. */
  static async open(
    ports: ReadonlyArray<number>,
    between: "clients" | "servers" = "clients",
  ): Promise<Link> {
    const link = new Link();
    link.speaksToClients = between === "clients";
    const urls: string[] = [];
    for (const port of ports) urls.push(`nats://127.0.0.1:${await link.listen(port)}`);
    link.url = urls.join(",");
    return link;
  }

  /** Everything is swallowed, new connections too, until `heal`. */
  cut(): void {
    this.isCut = true;
  }

  /** From now on each piece arrives this much later, in order. */
  delay(ms: number): void {
    this.delayMs = ms;
  }

  /** From now on inputs come as the broker may bring them after redeliveries. */
  disturb(unruly: Unruly): void {
    this.unruly = unruly;
  }

  /** Breaks all connections; new ones are taken. */
  drop(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  /** Closes connections that were cut, because bytes are missing in them. */
  heal(): void {
    if (this.isCut) this.drop();
    this.isCut = false;
    this.delayMs = 0;
    this.unruly = undefined;
  }

  async close(): Promise<void> {
    this.drop();
    await Promise.all(
      this.servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))),
    );
  }

  private async listen(port: number): Promise<number> {
    const server = createServer((client) => {
      this.accepted++;
      const upstream = connect(port, "127.0.0.1");
      this.pipe(client, upstream);
      this.pipe(upstream, client, this.speaksToClients ? new Deliveries(this, client) : undefined);
    });
    this.servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return (server.address() as AddressInfo).port;
  }

  private pipe(from: Socket, to: Socket, deliveries?: Deliveries): void {
    this.sockets.add(from);
    // One queue and one timer: a piece never overtakes the one before it, however late timers are.
    const late: Array<{ readonly bytes: Buffer; readonly dueMs: number }> = [];
    const flow = (): void => {
      while (late.length > 0 && late[0]!.dueMs <= performance.now()) {
        const { bytes } = late.shift()!;
        if (to.writable) to.write(bytes);
      }
      if (late.length > 0) setTimeout(flow, late[0]!.dueMs - performance.now());
    };
    from.on("data", (piece: Buffer) => {
      if (this.isCut) {
        this.swallowed += piece.length;
        return;
      }
      const bytes = deliveries === undefined ? piece : deliveries.pass(piece, this.unruly);
      if (bytes.length === 0) return;
      if (late.length === 0 && this.delayMs === 0) {
        to.write(bytes);
        return;
      }
      this.delayed++;
      late.push({ bytes, dueMs: performance.now() + this.delayMs });
      if (late.length === 1) setTimeout(flow, this.delayMs);
    });
    from.on("close", () => {
      this.sockets.delete(from);
      to.destroy();
    });
    from.on("error", () => to.destroy()); // a cut shows as an error on the other side
  }
}

/** What one connection delivers to a process, in whole frames. */
class Deliveries {
  private readonly link: Link;
  private readonly to: Socket;
  private readonly frames = new Frames();
  /** Inputs that were passed on so far. */
  private passed = 0;

  constructor(link: Link, to: Socket) {
    this.link = link;
    this.to = to;
  }

  /** Returns what is passed on at once; late and repeated frames are passed on later. */
  pass(piece: Buffer, unruly: Unruly | undefined): Buffer {
    const now: Buffer[] = [];
    for (const frame of this.frames.take(piece)) {
      const { random, twiceShare, lateShare } = unruly ?? CALM;
      if (frame.isDelivery && random?.chance(lateShare)) this.later(frame, unruly!, "overtaken");
      else {
        now.push(frame.bytes);
        if (!frame.isDelivery) continue;
        this.passed++;
        if (random?.chance(twiceShare)) this.later(frame, unruly!, "repeated");
      }
    }
    return Buffer.concat(now);
  }

  private later({ bytes }: Frame, { random, lateMsMax }: Unruly, as: "overtaken" | "repeated"): void {
    const before = this.passed;
    this.link.held++;
    setTimeout(() => {
      this.link.held--;
      if (!this.to.writable || this.link.isCut) return;
      this.to.write(bytes);
      if (as === "repeated" || this.passed > before) this.link[as]++;
      this.passed++;
    }, random.int(1, lateMsMax));
  } // prettier-ignore
}

const CALM = { random: undefined, twiceShare: 0, lateShare: 0 };
