/** Turns the limits of the command line, and those of the process, into the gateway's bounds. */
import type { Rate } from "../gateway/RateLimit.ts";
import { HTTP_BOUNDS_DEFAULT, type RunGatewayOptions } from "../gateway/runGateway.ts";
import {
  BYTES_PER_SECOND,
  FRAMES_PER_SECOND,
  socketRate,
  type SocketRateLimits,
} from "../gateway/SocketRates.ts";
import { connectionRoom, openFilesMax } from "../node/connectionRoom.ts";
import type { GatewayLimits, ProcessSettings } from "./ProcessSettings.ts";
import { defined } from "../../core/collections/defined.ts";

/** Other gateways take over. A caller that reuses a connection late should not lose its request. */
const DRAIN_WINDOW_MS = 2_000;
/** Callers send bursts: a page's requests, a batch. One may use these seconds' worth at once. */
const BURST_SECONDS = 5;

type Settings = Pick<ProcessSettings, "limits" | "portShared" | "log" | "role">;

export function gatewayBounds(settings: Settings): Pick<RunGatewayOptions, "bounds" | "http"> {
  const { limits, portShared = false } = settings;
  if (limits === undefined) return { http: { portShared } };
  const { perAddress, perEntity, trustedProxies, storeFirst } = limits;
  return {
    http: {
      portShared,
      drainWindowMs: DRAIN_WINDOW_MS,
      connectionsMax: connectionsMax(limits, settings),
    },
    bounds: {
      ...(perAddress === undefined ? {} : { addressRate: rateOf(perAddress) }),
      ...(perEntity === undefined ? {} : { entityRate: rateOf(perEntity) }),
      socketRates: socketRates(limits),
      ...defined({ trustedProxies, storeFirst }),
    },
  };
}

/** As configured, but no more than the process may have open. */
function connectionsMax(limits: GatewayLimits, { log, role }: Settings): number {
  const wanted = limits.connectionsMax ?? HTTP_BOUNDS_DEFAULT.connectionsMax;
  const openFiles = openFilesMax();
  if (openFiles === undefined) return wanted;
  const room = connectionRoom(openFiles);
  if (room >= wanted) return wanted;
  const fields = { connections: room, wanted, openFiles };
  // Of interest where somebody asked for more, and on a gateway that may come to need them.
  const quiet = role === "dev" ? "debug" : "info";
  const level = limits.connectionsMax === undefined ? quiet : "warn";
  log[level]("the limit of open files limits the connections (ulimit -n, LimitNOFILE)", fields);
  return room;
}

function socketRates({
  framesPerSocket = FRAMES_PER_SECOND,
  bytesPerSocket = BYTES_PER_SECOND,
  socketsPerAddress,
}: GatewayLimits): SocketRateLimits {
  return {
    ...(framesPerSocket > 0 && { frames: socketRate(framesPerSocket) }),
    ...(bytesPerSocket > 0 && { bytes: socketRate(bytesPerSocket) }),
    ...(socketsPerAddress !== undefined && { perAddressMax: socketsPerAddress }),
  };
}

const rateOf = (perSecond: number): Rate => ({ perSecond, burst: perSecond * BURST_SECONDS });
