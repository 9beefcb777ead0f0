/**
 * A balancer of TCP connections in front of several gateways, which it uses in turn. It knows no
 * HTTP and no health checks, and retries nothing, so that clients see everything that a gateway
 * does to a connection.
 */
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

export class Balancer {
  readonly url: string;
  private readonly server: Server;
  private readonly ports: number[] = [];
  private readonly open = new Set<Socket>();
  private next = 0;

  private constructor(server: Server) {
    this.server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on("connection", (client) => this.connect(client));
  }

  static async listen(): Promise<Balancer> {
    const server = createServer({ allowHalfOpen: true, noDelay: true });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new Balancer(server);
  }

  add(port: number): void {
    this.ports.push(port);
  }

  /** Connections that go to it stay. */
  remove(port: number): void {
    this.ports.splice(this.ports.indexOf(port), 1);
  }

  close(): Promise<void> {
    for (const socket of this.open) socket.destroy();
    return new Promise((resolve) => this.server.close(() => resolve()));
  }

  private connect(client: Socket): void {
    const port = this.ports[this.next++ % this.ports.length];
    if (port === undefined) return void client.destroy();
    const gateway = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    for (const [from, to] of [[client, gateway], [gateway, client]] as const) {
      this.open.add(from);
      // A reset on one side is one on the other.
      from.once("error", () => to.resetAndDestroy());
      from.once("close", () => {
        this.open.delete(from);
        to.end();
      });
      from.pipe(to);
    } // prettier-ignore
  }
}
