/**
 * What the console shows and does, as JSON values. The command line implements it on the broker's
 * ports; `services/console` serves it.
 */
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";
import type { DeliveryFilter } from "../delivery/deliveryHistory.ts";
import type { HistoryFilter } from "../history/historyFilter.ts";
import type { Omitted } from "../journal/historyLines.ts";

export interface AgentOf {
  readonly className: string;
  readonly name: string;
}

export interface FollowedAgent extends AgentOf {
  readonly connections: boolean;
}

export interface PointOf extends AgentOf {
  /** A journal sequence or a time, as `--at` takes it; undefined: now. */
  readonly at: string | undefined;
}

/** What is asked for is wrong or not there; the message is for who asked. */
export class ConsoleRefusal extends Error {
  override readonly name = "ConsoleRefusal";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Something that an open page shows has changed. */
export type ConsoleNews =
  /** An event was stored. */
  | { readonly agent: readonly [className: string, name: string]; readonly seq: number }
  | { readonly deliveries: ReadonlyArray<DeliveryRecord> }
  /** The first connections of the agent that is followed, or their number, are others now. */
  | { readonly connections: true }
  /** Hosts with their shards, or the number of dead letters, are others now. */
  | { readonly overview: unknown }
  /** The broker does not answer. The next `overview` means that it does. */
  | { readonly unreachable: true };

/** Each rejects with `ConsoleRefusal`, or with what the broker failed with. */
export interface ConsoleSource {
  /** Hosts, agents by class, the number of dead letters, and modules to re-run on. */
  readonly overview: () => Promise<unknown>;
  /**
   * Agents of a class or of all, by class and name: those whose names begin with `prefix` and
   * contain `text` (case does not count), after the agent `after`, `limit` at most. Fewer than
   * `limit`: there are no more after them. Without `fresh`, what comes after an agent may be as of
   * half a minute ago.
   */
  readonly list: (wanted: {
    readonly className: string | undefined;
    readonly prefix: string;
    readonly text: string;
    readonly after: AgentOf | undefined;
    readonly limit: number;
    readonly fresh: boolean;
  }) => Promise<unknown>;
  /**
   * The last `limit` turns that match, between the sequences, oldest first; and the others of the
   * event that the limit would cut. Fewer than `limit`: there are no older ones.
   */
  readonly history: (
    wanted: AgentOf & {
      readonly limit: number;
      readonly fromSeq: number | undefined;
      readonly toSeq: number | undefined;
      readonly rows: boolean;
      readonly omit: ReadonlyArray<Omitted>;
      readonly filter: HistoryFilter;
    },
  ) => Promise<unknown>;
  readonly state: (wanted: PointOf) => Promise<unknown>;
  readonly schedules: (wanted: PointOf) => Promise<unknown>;
  /** As `agents workflows --json` prints it, with a page of steps and one of instances. */
  readonly workflows: (
    wanted: PointOf & {
      readonly limit: number;
      readonly to: number | undefined;
      readonly cursor: string | undefined;
    },
  ) => Promise<unknown>;
  /** As `agents connections --json` prints them. */
  readonly connections: (
    wanted: AgentOf & { readonly limit: number; readonly skip: number },
  ) => Promise<unknown>;
  /** As `agents fibers --json` prints them. */
  readonly fibers: (
    wanted: PointOf & { readonly limit: number; readonly skip: number },
  ) => Promise<unknown>;
  /** Rows of a statement that reads. */
  readonly sql: (wanted: PointOf & { readonly query: string }) => Promise<unknown>;
  /**
   * Rows of one SELECT over all agents, as `agents query` has them with `--at` or `--after`; the
   * classes where it is empty.
   */
  readonly query: (wanted: {
    readonly sql: string;
    readonly at: string | undefined;
    readonly after: string | undefined;
  }) => Promise<unknown>;
  /** The turns that wrote a field or a row, newest first. */
  readonly why: (wanted: AgentOf & { readonly path: string; readonly limit: number }) => Promise<unknown>; // prettier-ignore
  readonly diff: (wanted: AgentOf & { readonly from: string; readonly to: string | undefined }) => Promise<unknown>; // prettier-ignore
  /** The last `limit` deliveries, newest first. */
  readonly deliveries: (
    wanted: Pick<DeliveryFilter, "route" | "status"> & {
      readonly agent: string | undefined;
      readonly since: string | undefined;
      readonly limit: number;
    },
  ) => Promise<unknown>;
  /** What is known of one request: its records, each with its input where a journal has it. */
  readonly delivery: (id: string) => Promise<unknown>;
  readonly redeliver: (id: string, to: string | undefined) => Promise<unknown>;
  /** As `redriveOnFork`, for a delivery. */
  readonly redeliverOnFork: (wanted: {
    readonly id: string;
    readonly module: string;
  }) => Promise<unknown>;
  /** The oldest `limit` dead letters after the number `after`. */
  readonly dead: (wanted: { readonly after: number; readonly limit: number }) => Promise<unknown>;
  readonly letter: (id: number) => Promise<unknown>;
  readonly redrive: (id: number) => Promise<unknown>;
  /**
   * What dead letters come to on forks in memory, as `agents dead redrive --on-fork --json` prints
   * it. `module`: as `overview` lists it.
   */
  readonly redriveOnFork: (wanted: {
    readonly ids: ReadonlyArray<number>;
    readonly module: string;
  }) => Promise<unknown>;
  readonly drop: (id: number) => Promise<unknown>;
  /** Quarantined agents, as `agents list --quarantined --json` has them. */
  readonly quarantined: () => Promise<unknown>;
  readonly release: (agent: AgentOf) => Promise<unknown>;
  /** As `redriveOnFork`, for what waits for a quarantined agent. */
  readonly releaseOnFork: (wanted: AgentOf & { readonly module: string }) => Promise<unknown>;
  readonly fork: (wanted: PointOf & { readonly newName: string }) => Promise<unknown>;
  /** What a module makes of the webhooks of an agent's past. `module`: as `overview` lists it. */
  readonly rerun: (
    wanted: AgentOf & {
      readonly module: string;
      readonly from: number | undefined;
      readonly to: number | undefined;
      readonly last: number;
      readonly failed: boolean;
    },
  ) => Promise<unknown>;
  /** What classes and the busiest agents cost, measured for two seconds, as `agents top` has it. */
  readonly top: () => Promise<unknown>;
  /** Each process that holds shards, with their number. */
  readonly hosts: () => Promise<unknown>;
  /**
   * Calls `tell` with what happens from now on, until the returned function is called: to one
   * agent, where asked also to its connections, or to all.
   */
  readonly follow: (
    wanted: FollowedAgent | undefined,
    tell: (news: ConsoleNews) => void,
  ) => () => void;
}
