/**
 * A TCP proxy between a client and its nats-server whose directions can be swallowed (bytes are
 * read and thrown away, the connection stays open) and whose connections can be cut. It makes the
 * moments of the ambiguous append: stored but the ack lost, sent but never arrived.
 */
import { createServer, connect, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

export type Direction = "toServer" | "toClient";

export interface FaultyLink {
  readonly url: string;
  /** Bytes of these directions are thrown away from now on. */
  readonly swallow: (...directions: Direction[]) => void;
  /** Bytes swallowed so far: the proof that the fault bit. */
  readonly swallowed: (direction: Direction) => number;
  /** Connections taken so far. */
  readonly accepted: () => number;
  /** Breaks all connections and lets new ones pass untouched. */
  readonly cut: () => void;
  readonly close: () => Promise<void>;
}

export async function faultyLink(serverPort: number): Promise<FaultyLink> {
  const sockets = new Set<Socket>();
  let swallowing = new Set<Direction>();
  const counts = { toServer: 0, toClient: 0 };
  const pipe = (from: Socket, to: Socket, direction: Direction): void => {
    sockets.add(from);
    from.on("data", (bytes) => {
      if (swallowing.has(direction)) counts[direction] += bytes.length;
      else to.write(bytes);
    });
    from.on("close", () => {
      sockets.delete(from);
      to.destroy();
    });
    from.on("error", () => to.destroy()); // a cut shows as an error on the other side
  };
  let accepted = 0;
  const server = createServer((client) => {
    accepted++;
    const upstream = connect(serverPort, "127.0.0.1");
    pipe(client, upstream, "toServer");
    pipe(upstream, client, "toClient");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = (): void => {
    swallowing = new Set();
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `nats://127.0.0.1:${(server.address() as AddressInfo).port}`,
    swallow: (...directions) => {
      swallowing = new Set(directions);
    },
    swallowed: (direction) => counts[direction],
    accepted: () => accepted,
    cut,
    close: () =>
      new Promise((resolve) => {
        cut();
        server.close(() => resolve());
      }),
  };
}
