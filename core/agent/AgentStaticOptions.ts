/**
 * `static options` of an agent class: what a class decides about how its agents run. `Agent`
 * declares the static; the host and the runtime read it.
 */
import { RETRY_DEFAULT, type RetryOptions } from "../retry/RetryOptions.ts";
import { HUNG_SCHEDULE_TIMEOUT_SECONDS } from "../schedule/runSchedule.ts";

export interface AgentStaticOptions {
  /** Leave memory when idle. Default true; false keeps it while its host lives. */
  readonly hibernate?: boolean;
  /** Seconds without a turn after which it hibernates. Default 30. */
  readonly hibernateAfterSeconds?: number;
  /** Send the identity frame on connect. Default true. */
  readonly sendIdentityOnConnect?: boolean;
  readonly hungScheduleTimeoutSeconds?: number;
  readonly retry?: RetryOptions;
  /**
   * After a host's end interrupted fibers are looked for within this time. Milliseconds, default
   * 30,000; at least 100.
   */
  readonly keepAliveIntervalMs?: number;
  /**
   * `onStart` waits this long for `onFiberRecovered` of all. Milliseconds, default 10,000; 0: until
   * they are through.
   */
  readonly fiberRecoveryScanDeadlineMs?: number;
  /**
   * An `onFiberRecovered` that keeps failing is given up for a fiber this old. Milliseconds,
   * default a day; 0: never.
   */
  readonly fiberRecoveryMaxAgeMs?: number;
  /**
   * `"open"`: the default routing lets HTTP requests and writing sockets reach a class that has
   * signed webhooks. Without it that class takes its webhooks only, and its sockets are readonly
   * (`docs/guides/access.md`). There is no other value; the type is wide because TypeScript reads the word
   * in a subclass as a `string`.
   */
  readonly http?: string;
  /** `sendWebhook` may reach private, loopback and link-local addresses. Default false. */
  readonly allowPrivateHosts?: boolean;
  /** `setState` past it throws `StateTooLarge`. Bytes of JSON, default 16 MiB. */
  readonly stateBytesMax?: number;
  /**
   * SQL past it throws; what was uncommitted before stays. Bytes of pages that one commit changes,
   * default 64 MiB.
   */
  readonly commitBytesMax?: number;
  /** Past it calls and clients can't write: `JournalRateExceeded`. Bytes, default 512 MiB. */
  readonly journalBytesPerMinute?: number;
}

export const AGENT_STATIC_OPTIONS_DEFAULT = {
  hibernate: true,
  hibernateAfterSeconds: 30,
  sendIdentityOnConnect: true,
  hungScheduleTimeoutSeconds: HUNG_SCHEDULE_TIMEOUT_SECONDS,
  retry: RETRY_DEFAULT,
} as const;

/** Those of an agent's class; none where the class replaced them with nothing. */
export const classOptions = (agent: object): AgentStaticOptions =>
  (agent.constructor as { readonly options?: AgentStaticOptions }).options ?? {};
