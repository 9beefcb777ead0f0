/**
 * Reserves a port before workers share it. With SO_REUSEPORT the system lets any process of the
 * same user listen on a port that others already share, and silently gives it some of their
 * connections.
 *
 * 1. When the port is reserved, no other process listens on the address: an ordinary listener,
 *    which shares with no one, binds it and closes again. Port 0 is chosen this way.
 * 2. Until the scope closes, no other parent on this machine can reserve the port, even while no
 *    worker listens: a name in the kernel is held, which is released when the process ends.
 */
import { createServer, type AddressInfo, type ListenOptions, type Server } from "node:net";
import * as Effect from "effect/Effect";
import type * as Scope from "effect/Scope";
import { ListenFailed } from "../../core/http/HttpServer.ts";
import { listenFailed } from "../http/explainListen.ts";

interface PortAddress {
  readonly hostname: string;
  /** 0: any free port. */
  readonly port: number;
}

/** Succeeds with the port. */
export const reservePort = (
  address: PortAddress,
): Effect.Effect<number, ListenFailed, Scope.Scope> =>
  Effect.gen(function* () {
    const { hostname } = address;
    // On other systems the option does not exist, or gives all connections to one of the listeners.
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
      // The leading NUL makes it an abstract name instead of a file. No client connects to it.
      try: () => listen({ path: `\0agents-gateway-${hostname}-${port}`, exclusive: true }),
      catch: (cause) => cause as NodeJS.ErrnoException,
    });
    yield* Effect.acquireRelease(held, (server) => Effect.promise(() => close(server))).pipe(
      Effect.catch((cause) =>
        // In a sandbox that allows no such name, only invariant 1 holds.
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
