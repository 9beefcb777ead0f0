/**
 * `static options` of an agent class: how its agents run. `Agent` declares the static; the host and
 * the runtime read it.
 */
import type { HistoryOption } from "../retention/HistoryLimits.ts";
import { RETRY_DEFAULT, type RetryOptions } from "../retry/RetryOptions.ts";
import { HUNG_SCHEDULE_TIMEOUT_SECONDS } from "../schedule/runSchedule.ts";

/** `static options` of an agent class. A subclass's options replace those of its parent. */
export interface AgentStaticOptions {
  /**
   * Whether the agent leaves memory when idle. False keeps it while its host lives. Default true.
   */
  readonly hibernate?: boolean;
  /** Seconds without a turn after which the agent hibernates. Default 30. */
  readonly hibernateAfterSeconds?: number;
  /** Whether clients receive the identity frame when they connect. Default true. */
  readonly sendIdentityOnConnect?: boolean;
  /**
   * Seconds after which the callback of an interval is declared hung: the interval is due again one
   * interval later, although the run can't be stopped. 0: never. Default 30.
   */
  readonly hungScheduleTimeoutSeconds?: number;
  /** The retry policy of inputs, schedules, queue items and `retry`. Default: `RetryOptions`'s. */
  readonly retry?: RetryOptions;
  /**
   * What is kept of an agent's history: `"all"`, or limits, as in `{ days: 30, events: 100_000 }`.
   * Older journal events are trimmed once a limit is exceeded by a tenth; events younger than a
   * minute never are. State, SQL, schedules, queue and done inputs stay. Default: the setting of
   * the process that trims (`agents retention --history`), else all.
   */
  readonly history?: HistoryOption;
  /**
   * Seconds that a turn may hold its process's thread without an `await` that waits for something.
   * A turn that exceeds it ends the process, whatever it does; its input runs again, and becomes a
   * dead letter after its last attempt. 0: no limit. Default 5, or the host's `--cpu-seconds`.
   */
  readonly cpuSeconds?: number;
  /**
   * Seconds that a turn may take, including its waits. A turn that exceeds it is given up: its
   * attempt fails with `TurnTimedOut`, its signal aborts, and later writes of its code are refused.
   * Workflows and fibers are not turns. 0: no limit. Default 900, or the host's `--turn-seconds`.
   */
  readonly turnSeconds?: number;
  /** Milliseconds to find a dead host's interrupted fibers in; at least 100. Default 30,000. */
  readonly keepAliveIntervalMs?: number;
  /** Milliseconds that `onStart` waits for `onFiberRecovered`; 0: no limit. Default 10,000. */
  readonly fiberRecoveryScanDeadlineMs?: number;
  /**
   * Age of a fiber, in milliseconds, past which an `onFiberRecovered` that keeps failing is no
   * longer called; 0: no limit. Default one day.
   */
  readonly fiberRecoveryMaxAgeMs?: number;
  /**
   * `"open"`: the default routing passes HTTP requests and writing sockets on to a class that has
   * signed webhooks. Otherwise such a class receives its webhooks only, and its sockets are
   * readonly (`docs/guides/access.md`). There is no other value; the type is `string` because
   * TypeScript infers that for a literal in a subclass.
   */
  readonly http?: string;
  /**
   * Whether `this.fetch` keeps requests with their answers, without credentials, for `agents
   * rerun`. Default false: answers only.
   */
  readonly record?: boolean;
  /**
   * Paths of fields in webhook bodies and socket messages, as in `["customer.email", "card.*"]`,
   * that are stored as `REDACTED`, in addition to those of a route. The agent's code sees the
   * values. What it writes to state or SQL is kept as it is. Default: none.
   */
  readonly redact?: ReadonlyArray<string>;
  /** Whether `sendWebhook` can reach private, loopback and link-local addresses. Default false. */
  readonly allowPrivateHosts?: boolean;
  /** Bytes of JSON past which `setState` throws `StateTooLarge`. Default 16 MiB. */
  readonly stateBytesMax?: number;
  /**
   * Bytes of pages that one commit can change. SQL that exceeds it throws; earlier uncommitted
   * changes stay. Default 64 MiB.
   */
  readonly commitBytesMax?: number;
  /**
   * Bytes of journal a minute past which calls and clients can't write: `JournalRateExceeded`.
   * Default 512 MiB.
   */
  readonly journalBytesPerMinute?: number;
  /** Rows of one SQL result past which `sql` throws `CeilingReached`. Default 100,000. */
  readonly sqlRowsMax?: number;
  /** Queue items past which `queue` throws `CeilingReached`. Default 100,000. */
  readonly queueMax?: number;
  /** Schedules past which `schedule` throws `CeilingReached`. Default 100,000. */
  readonly schedulesMax?: number;
  /**
   * Webhooks, or mails, waiting to be sent past which `sendWebhook` and `sendEmail` throw
   * `CeilingReached`. Default 10,000.
   */
  readonly outgoingMax?: number;
  /** Sockets past which an upgrade is refused with 429. Default 20,000. */
  readonly connectionsMax?: number;
  /**
   * Sub-agents past which a URL that names a new one is answered 429. The agent's own code may
   * create more. Default 100,000.
   */
  readonly subAgentsMax?: number;
  /**
   * Waiting stored inputs, including queue items, past which a webhook is refused with 429 and not
   * stored. Default 200,000.
   */
  readonly waitingMax?: number;
}

/** Values of the options that a class does not set. */
export const AGENT_STATIC_OPTIONS_DEFAULT = {
  hibernate: true,
  hibernateAfterSeconds: 30,
  sendIdentityOnConnect: true,
  hungScheduleTimeoutSeconds: HUNG_SCHEDULE_TIMEOUT_SECONDS,
  retry: RETRY_DEFAULT,
} as const;
