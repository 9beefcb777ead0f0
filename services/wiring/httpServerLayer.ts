/**
 * Chooses the gateway's HTTP server: uWebSockets.js, which is several times faster, or node:http,
 * which runs everywhere. The joins of processes and of the console call it. `auto` never fails;
 * `uws` fails where it can't be loaded.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import type { HttpServer } from "../../core/http/HttpServer.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import * as UwsServer from "../uws/UwsServer.ts";
import { loadUws } from "../uws/loadUws.ts";

export type HttpServerChoice = "auto" | "uws" | "node";

interface HttpServerOptions {
  readonly load?: typeof loadUws;
  /** Receives the reason where `auto` falls back on node:http. */
  readonly log?: LogShape;
}

/** Imported only when chosen: it loads `ws`, which a process on uWebSockets.js never uses. */
const nodeServerLayer = Layer.unwrap(
  Effect.map(
    Effect.promise(() => import("../nodeHttp/NodeServer.ts")),
    ({ layer }) => layer,
  ),
);

export const httpServerLayer = (
  choice: HttpServerChoice,
  { load = loadUws, log }: HttpServerOptions = {},
): Layer.Layer<HttpServer, UwsServer.UwsUnavailable> => {
  if (choice === "node") return nodeServerLayer;
  if (choice === "uws") return UwsServer.layer(load);
  return Layer.catchTag(UwsServer.layer(load), "UwsUnavailable", ({ reason, message }) => {
    // A plain install is served by node:http. A binary that was installed and can't be used is
    // worth a warning.
    log?.[reason === "noBinary" ? "warn" : "info"](`Serving HTTP by node:http: ${message}`);
    return nodeServerLayer;
  });
};
