/** Turns the limits of the command line into the gateway's bounds. */
import type { Rate } from "../gateway/RateLimit.ts";
import type { RunGatewayOptions } from "../gateway/runGateway.ts";
import {
  BYTES_PER_SECOND,
  FRAMES_PER_SECOND,
  socketRate,
  type SocketRateLimits,
} from "../gateway/SocketRates.ts";
import type { GatewayLimits } from "./ProcessSettings.ts";

/** Other gateways take over. A caller that reuses a connection late should not lose its request. */
const DRAIN_WINDOW_MS = 2_000;
/**
 * Callers send bursts: a page's requests, a provider's batch. A burst may use this many seconds'
 * worth at once.
 */
const BURST_SECONDS = 5;

export function gatewayBounds(
  limits: GatewayLimits | undefined,
  portShared: boolean,
): Pick<RunGatewayOptions, "bounds" | "http"> {
  if (limits === undefined) return { http: { portShared } };
  const { connectionsMax, perAddress, perEntity, trustedProxies, storeFirst } = limits;
  return {
    http: {
      portShared,
      drainWindowMs: DRAIN_WINDOW_MS,
      ...(connectionsMax === undefined ? {} : { connectionsMax }),
    },
    bounds: {
      ...(perAddress === undefined ? {} : { addressRate: rateOf(perAddress) }),
      ...(perEntity === undefined ? {} : { entityRate: rateOf(perEntity) }),
      socketRates: socketRates(limits),
      ...(trustedProxies === undefined ? {} : { trustedProxies }),
      ...(storeFirst === undefined ? {} : { storeFirst }),
    },
  };
}

function socketRates({
  framesPerSocket = FRAMES_PER_SECOND,
  bytesPerSocket = BYTES_PER_SECOND,
}: GatewayLimits): SocketRateLimits {
  return {
    ...(framesPerSocket > 0 && { frames: socketRate(framesPerSocket) }),
    ...(bytesPerSocket > 0 && { bytes: socketRate(bytesPerSocket) }),
  };
}

const rateOf = (perSecond: number): Rate => ({ perSecond, burst: perSecond * BURST_SECONDS });
