/**
 * A balancer of TCP connections in front of several gateways, which it uses in turn; if one
 * refuses, it tries the next. It knows no HTTP and no health checks, and never retries an
 * established connection, so that clients see everything that a gateway does to a connection.
 */
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

export class Balancer {
  readonly url: string;
  /** Connections that a gateway refused, and another took. */
  refused = 0;
  private readonly server: Server;
  private readonly ports: number[] = [];
  private readonly open = new Set<Socket>();
  private next = 0;

  private constructor(server: Server) {
    this.server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on("connection", (client) => this.connect(client, this.ports.length));
  }

  static async listen(): Promise<Balancer> {
    const server = createServer({ allowHalfOpen: true, noDelay: true });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new Balancer(server);
  }

  add(port: number): void {
    this.ports.push(port);
  }

  remove(port: number): void {
    this.ports.splice(this.ports.indexOf(port), 1);
  }

  close(): Promise<void> {
    for (const socket of this.open) socket.destroy();
    return new Promise((resolve) => this.server.close(() => resolve()));
  }

  private connect(client: Socket, tries: number): void {
    const port = this.ports[this.next++ % this.ports.length];
    if (port === undefined || tries === 0) return void client.destroy();
    const gateway = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    const refused = (): void => {
      this.refused++;
      this.connect(client, tries - 1);
    };
    gateway.once("error", refused);
    gateway.once("connect", () => {
      gateway.off("error", refused);
      this.join(client, gateway);
    });
  }

  private join(client: Socket, gateway: Socket): void {
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
