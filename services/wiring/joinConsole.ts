/**
 * Joins the console with this machine's HTTP server for `agents console`. `main` passes it on. The
 * data comes from the reading commands.
 */
import * as Effect from "effect/Effect";
import * as Exit from "effect/Exit";
import * as Layer from "effect/Layer";
import * as Scope from "effect/Scope";
import type { ConsoleSource } from "../../core/console/ConsoleSource.ts";
import { HttpServer } from "../../core/http/HttpServer.ts";
import { Console } from "../console/Console.ts";
import { HTTP_BOUNDS_DEFAULT } from "../gateway/runGateway.ts";
import { httpServerLayer } from "./httpServerLayer.ts";
import type { ConsoleSettings, ServedConsole } from "./Joins.ts";

/** The console serves operators, not the public. */
const CONNECTIONS_MAX = 256;

/** Rejects with `ListenFailed`. */
export async function serveConsole(
  source: ConsoleSource,
  { hostname, port, ...settings }: ConsoleSettings,
): Promise<ServedConsole> {
  const { handlers } = new Console(source, { ...settings, hostname });
  const scope = Effect.runSync(Scope.make());
  const stop = () => Effect.runPromise(Scope.close(scope, Exit.void));
  try {
    const context = await Effect.runPromise(Layer.buildWithScope(httpServerLayer("auto"), scope));
    const listening = Effect.gen(function* () {
      const server = yield* HttpServer;
      return yield* server.listen(
        { ...HTTP_BOUNDS_DEFAULT, connectionsMax: CONNECTIONS_MAX, hostname, port },
        handlers,
      );
    });
    const served = await Effect.runPromise(
      Effect.provide(Scope.provide(listening, scope), context),
    );
    return { port: served.port, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
