/** The network between the nats-servers of a cluster: a link for each pair and direction. */
import { Link } from "./Link.ts";

/** The address that a server advertises to others. Nobody listens: no route bypasses the links. */
const NOWHERE = "127.0.0.1:1";

export class Routes {
  /** By the server that connects, then by the server that it connects to. */
  private readonly links: ReadonlyArray<ReadonlyArray<Link | undefined>>;

  private constructor(links: ReadonlyArray<ReadonlyArray<Link | undefined>>) {
    this.links = links;
  }

  /** `ports` are those that servers listen on for one another. */
  static async open(ports: ReadonlyArray<number>): Promise<Routes> {
    const between = ports.map((_, from) =>
      Promise.all(
        ports.map((port, to) => (from === to ? undefined : Link.open([port], "servers"))),
      ),
    );
    return new Routes(await Promise.all(between));
  }

  /** The `cluster` block of a server that listens on `port`. */
  config(server: number, port: number): string {
    const urls = this.links[server]!.map((link) =>
      link === undefined ? `nats://127.0.0.1:${port}` : link.url,
    );
    const routes = urls.map((url) => url.replace("nats:", "nats-route:")).join(", ");
    // Not advertised, so that clients reconnect through their proxies.
    return `cluster { name: rig, listen: "127.0.0.1:${port}", no_advertise: true, advertise: "${NOWHERE}", routes: [${routes}] }`;
  }

  get swallowed(): number {
    return this.all.reduce((sum, { swallowed }) => sum + swallowed, 0);
  }

  /** Cuts the server off from all others, in both directions. */
  isolate(server: number): void {
    this.links.forEach((_, other) => this.cut(server, other));
  }

  cut(one: number, other: number): void {
    this.links[one]![other]?.cut();
    this.links[other]![one]?.cut();
  }

  heal(): void {
    for (const link of this.all) link.heal();
  }

  async close(): Promise<void> {
    await Promise.all(this.all.map((link) => link.close()));
  }

  private get all(): Link[] {
    return this.links.flat().filter((link) => link !== undefined);
  }
}
