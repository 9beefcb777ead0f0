/** Joins the limits of the command line with the gateway's bounds. */
import type { Rate } from "../gateway/RateLimit.ts";
import type { RunGatewayOptions } from "../gateway/runGateway.ts";
import type { GatewayLimits } from "./Joins.ts";

/** Callers come in bursts: a page's requests, a provider's batch. So many seconds' worth at once. */
const BURST_SECONDS = 5;

export function gatewayBounds(
  limits: GatewayLimits | undefined,
  portShared: boolean,
): Pick<RunGatewayOptions, "bounds" | "http"> {
  if (limits === undefined) return { http: { portShared } };
  const { connectionsMax, perAddress, perEntity, trustedProxies, storeFirst } = limits;
  return {
    http: { portShared, ...(connectionsMax === undefined ? {} : { connectionsMax }) },
    bounds: {
      ...(perAddress === undefined ? {} : { addressRate: rateOf(perAddress) }),
      ...(perEntity === undefined ? {} : { entityRate: rateOf(perEntity) }),
      ...(trustedProxies === undefined ? {} : { trustedProxies }),
      ...(storeFirst === undefined ? {} : { storeFirst }),
    },
  };
}

const rateOf = (perSecond: number): Rate => ({ perSecond, burst: perSecond * BURST_SECONDS });
