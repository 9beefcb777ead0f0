/**
 * The adapters of a serving process: NATS, SQLite, this machine's clock, network and HTTP server.
 * `joinProcess` builds them before it starts the roles of the process.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { Outgoing } from "../../core/outgoing/Outgoing.ts";
import { Log } from "../../core/telemetry/Log.ts";
import { Time } from "../../core/time/Time.ts";
import { Ambient } from "../../core/turn/Ambient.ts";
import { layer as cronLayer } from "../cronParser/CronParser.ts";
import { layer as mcpLayer } from "../mcp/McpClientsLayer.ts";
import { natsLayer } from "../nats/natsLayer.ts";
import { asyncAmbient, asyncAmbientLayer } from "../node/AsyncAmbient.ts";
import { machineTime } from "../node/MachineTime.ts";
import { rssBytesMax } from "../node/memoryInUse.ts";
import { layer as outgoingLayer } from "../node/NodeOutgoing.ts";
import { sealedOutgoing } from "../node/sealProcess.ts";
import { httpServerLayer } from "./httpServerLayer.ts";
import { sqliteDatabases } from "../sqlite/sqliteDatabases.ts";
import type { Stall } from "../watchdog/pausedCode.ts";
import { startWatchdog, type WatchdogOptions } from "../watchdog/startWatchdog.ts";
import { natsOptions, provisionOptions } from "./joinNats.ts";
import { mailLayers } from "./joinMail.ts";
import type { ProcessSettings } from "./ProcessSettings.ts";

/** The watchdog runs before the host does. */
export interface StallSink {
  tell: (stall: Stall) => void;
}

export const portsLayer = (
  settings: ProcessSettings,
  {
    natsUrl,
    folder,
    stalls,
  }: { readonly natsUrl: string; readonly folder: string | undefined; readonly stalls: StallSink },
) => {
  const { namespace, natsLogin, role, log } = settings;
  return Layer.mergeAll(
    natsLayer({
      ...natsOptions({ natsUrl, login: natsLogin, namespace }, role, log),
      leaderOnly: role === "gateway" || role === "mail",
      provision: {
        ...provisionOptions(settings.provision),
        moveInbox: settings.natsUrl === undefined, // the broker is this process's own
      },
    }),
    sqliteDatabases({ folder, ...imageLimit(settings) }),
    settings.watchdog === undefined
      ? asyncAmbientLayer
      : watchedAmbient({
          ...settings.watchdog,
          rssBytesMax: rssBytesMax(settings.memory),
          onStall: (stall) => stalls.tell(stall),
        }),
    cronLayer,
    settings.sealed === undefined ? outgoingLayer : Layer.succeed(Outgoing, sealedOutgoing(log)),
    mcpLayer({ allowLoopback: role === "dev" || settings.mcpAllowLoopback === true, log }),
    mailLayers(settings),
    Layer.succeed(Time, machineTime),
    Layer.succeed(Log, log),
    httpServerLayer("auto", role === "gateway" || role === "dev" ? { log } : {}),
  );
};

/** The ambient context, with the watchdog that it feeds. */
const watchedAmbient = (options: WatchdogOptions) =>
  Layer.effect(
    Ambient,
    Effect.map(
      Effect.acquireRelease(
        Effect.sync(() => startWatchdog(asyncAmbient, options)),
        ({ stop }) => Effect.promise(stop),
      ),
      ({ ambient }) => ambient,
    ),
  );

const imageLimit = ({ images }: ProcessSettings): { readonly folderBytesMax?: number } =>
  images?.bytesMax === undefined ? {} : { folderBytesMax: images.bytesMax / images.processes };
