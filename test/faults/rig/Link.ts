/**
 * The network between one process and the broker: a TCP proxy for each nats-server, whose connections can be
 * dropped, delayed, or cut (bytes stay where they are, the connection looks alive). Counts what it did.
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

export class Link {
  /** Comma-separated, one a server. */
  url = "";
  /** Connections taken so far: more than one a server means reconnects. */
  accepted = 0;
  /** Bytes that were swallowed by a cut. */
  swallowed = 0;
  /** Pieces that came late. */
  delayed = 0;
  private readonly servers: Server[] = [];
  private readonly sockets = new Set<Socket>();
  private isCut = false;
  private delayMs = 0;

  static async open(ports: ReadonlyArray<number>): Promise<Link> {
    const link = new Link();
    const urls: string[] = [];
    for (const port of ports) urls.push(`nats://127.0.0.1:${await link.listen(port)}`);
    link.url = urls.join(",");
    return link;
  }

  /** Everything is swallowed, new connections too, until `heal`. */
  cut(): void {
    this.isCut = true;
  }

  /** From now on each piece arrives so much later, in order. */
  delay(ms: number): void {
    this.delayMs = ms;
  }

  /** Breaks all connections; new ones are taken. */
  drop(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  /** What was cut is broken off: bytes are missing in it. */
  heal(): void {
    if (this.isCut) this.drop();
    this.isCut = false;
    this.delayMs = 0;
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
      this.pipe(upstream, client);
    });
    this.servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return (server.address() as AddressInfo).port;
  }

  private pipe(from: Socket, to: Socket): void {
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
    from.on("data", (bytes: Buffer) => {
      if (this.isCut) {
        this.swallowed += bytes.length;
        return;
      }
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
