/**
 * Makes sure that a port is ours before workers share it. With SO_REUSEPORT the system lets any process of the same
 * user listen on a port that others share already, and gives it some of their connections: nobody would be told.
 *
 * 1. At the claim nobody else listens on the address: an ordinary listener, which shares with no one, gets it, and
 *    closes again. Port 0 is chosen so.
 * 2. Until the scope closes no other parent on this machine claims it, also while none of our workers listens: a
 *    name in the kernel is held, which goes with the process.
 */
import { createServer, type AddressInfo, type ListenOptions, type Server } from "node:net";
import * as Effect from "effect/Effect";
import type * as Scope from "effect/Scope";
import { ListenFailed } from "../../core/http/HttpServer.ts";
import { listenFailed } from "../http/explainListen.ts";

export interface PortAddress {
  readonly hostname: string;
  /** 0: any free one. */
  readonly port: number;
}

/** Succeeds with the port. */
export const reservePort = (
  address: PortAddress,
): Effect.Effect<number, ListenFailed, Scope.Scope> =>
  Effect.gen(function* () {
    const { hostname } = address;
    // Elsewhere the option does not exist, or gives all connections to one of those who share.
    if (process.platform !== "linux")
      return yield* new ListenFailed({
        port: address.port,
        message: `gateways can't share a port on ${process.platform}, only on Linux: start them by themselves, each on its own port`,
      });
    const refused = (cause: NodeJS.ErrnoException) =>
      listenFailed(address, cause.code ?? "unknown");
    const port = yield* Effect.tryPromise({
      try: async () => {
        const probe = await listen({ host: hostname, port: address.port, exclusive: true });
        const found = (probe.address() as AddressInfo).port;
        await close(probe);
        return found;
      },
      catch: (cause) => refused(cause as NodeJS.ErrnoException),
    });
    const held = Effect.tryPromise({
      // The leading NUL makes it a name and no file. Nobody is meant to connect.
      try: () => listen({ path: `\0agents-gateway-${hostname}-${port}`, exclusive: true }),
      catch: (cause) => cause as NodeJS.ErrnoException,
    });
    yield* Effect.acquireRelease(held, (server) => Effect.promise(() => close(server))).pipe(
      Effect.catch((cause) =>
        // A sandbox that allows no such name leaves us with invariant 1.
        cause.code === "EADDRINUSE" ? Effect.fail(refused(cause)) : Effect.void,
      ),
    );
    return port;
  });

function listen(options: ListenOptions): Promise<Server> {
  const server = createServer((socket) => socket.destroy());
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(options, () => resolve(server));
  });
}

const close = (server: Server): Promise<void> =>
  new Promise((resolve) => server.close(() => resolve()));
