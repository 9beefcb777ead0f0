/**
 * The configuration of a gateway: its name, the installation, and its bounds. `runGateway` builds
 * it from the command line's options and these defaults.
 */
import type { RequestLines } from "../../core/telemetry/RequestLog.ts";
import type { Subjects } from "../../schemas/Subjects.ts";
import type { AccessConfig } from "./Access.ts";
import type { Rate } from "./RateLimit.ts";
import {
  BYTES_PER_SECOND,
  FRAMES_PER_SECOND,
  socketRate,
  type SocketRateLimits,
} from "./SocketRates.ts";

export interface GatewayConfig extends AccessConfig {
  /** Unique among gateways for the life of the process. Part of subjects, leases and log lines. */
  readonly gatewayId: string;
  readonly subjects: Subjects;
  /** The number of shards that the installation was provisioned with. */
  readonly shards: number;
  /** Largest body, in bytes, of a request that no webhook route matches. */
  readonly bodyBytesMax: number;
  /** How long an HTTP request to an agent may take, including moves of the agent. */
  readonly requestDeadlineMs: number;
  /** Webhooks that wait for their answer or their store. At this number, callers receive 429. */
  readonly webhooksWaitingMax: number;
  /**
   * Stores every webhook in the inbox before its agent receives it. A webhook whose turn ends the
   * process is then delivered again without a repetition by its sender.
   */
  readonly storeFirst: boolean;
  /** Requests, webhooks and upgrades of one address. Undefined: no limit. */
  readonly addressRate?: Rate;
  /** Verified webhooks and upgrades of one agent. Undefined: no limit. */
  readonly entityRate?: Rate;
  /**
   * What one socket may send. All sockets of one address may send four times as much. A socket that
   * exceeds a limit is closed with 1013.
   */
  readonly socketRates: SocketRateLimits;
  /** Unsent bytes past which a socket is closed with 1013, frames before the upgrade included. */
  readonly socketBufferBytesMax: number;
  /** Which requests have a line in the log. Default `failed`. */
  readonly requestLines?: RequestLines | undefined;
  /** Number of proxies in front of the gateway whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies: number;
}

export const GATEWAY_BOUNDS_DEFAULT: Pick<
  GatewayConfig,
  | "bodyBytesMax"
  | "requestDeadlineMs"
  | "webhooksWaitingMax"
  | "storeFirst"
  | "trustedProxies"
  | "socketRates"
  | "socketBufferBytesMax"
  | "addressRate"
  | "entityRate"
> = {
  trustedProxies: 0,
  storeFirst: false,
  bodyBytesMax: 25 * 1024 * 1024,
  requestDeadlineMs: 60_000,
  /** At 10,000 webhooks a second, two seconds of backlog. */
  webhooksWaitingMax: 20_000,
  socketRates: { frames: socketRate(FRAMES_PER_SECOND), bytes: socketRate(BYTES_PER_SECOND) },
  socketBufferBytesMax: 8 * 1024 * 1024,
};
