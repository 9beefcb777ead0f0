/**
 * Joins the console with this machine's HTTP server for `agents console`. `main` passes it on. The
 * data comes from the reading commands.
 */
import * as Context from "effect/Context";
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import type { ConsoleSource } from "../../core/console/ConsoleSource.ts";
import { HttpServer } from "../../core/http/HttpServer.ts";
import { Console } from "../console/Console.ts";
import { HTTP_BOUNDS_DEFAULT } from "../gateway/runGateway.ts";
import { httpServerLayer } from "./httpServerLayer.ts";
import { openScoped } from "./openScoped.ts";
import type { ConsoleSettings, ServedConsole } from "./Joins.ts";

/** The console serves operators, not the public. */
const CONNECTIONS_MAX = 256;

/** Rejects with `ListenFailed`. */
export async function serveConsole(
  source: ConsoleSource,
  { hostname, port, ...settings }: ConsoleSettings,
): Promise<ServedConsole> {
  const { handlers } = new Console(source, { ...settings, hostname });
  const listening = Effect.gen(function* () {
    const server = Context.get(yield* Layer.build(httpServerLayer("auto")), HttpServer);
    return yield* server.listen(
      { ...HTTP_BOUNDS_DEFAULT, connectionsMax: CONNECTIONS_MAX, hostname, port },
      handlers,
    );
  });
  const { opened, close } = await openScoped(listening);
  return { port: opened.port, stop: close };
}
