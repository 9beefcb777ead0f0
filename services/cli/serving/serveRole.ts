/**
 * The implementation of `agents gateway`, `agents host` and `agents mail`: one process of an
 * installation, with a broker that already runs.
 */
import { hostAndPort } from "../../../core/http/hostAndPort.ts";
import type { Joins } from "../../wiring/Joins.ts";
import type { ProcessSettings } from "../../wiring/ProcessSettings.ts";
import type { WorkerLink } from "../../workers/workerLink.ts";
import { channelLeases } from "../../workers/channelLeases.ts";
import { usage } from "../terminal/CliError.ts";
import { shownPath, type Terminal } from "../terminal/Terminal.ts";
import { beginAndPrepare } from "./prepare.ts";
import { serve } from "./serve.ts";

/** The options of a serving command, as `options/servingOptions` builds them. */
export interface ServingOptions extends Omit<ProcessSettings, "module" | "env" | "metrics"> {
  /** For a worker of `dev`: the public URL of its tunnel. */
  readonly tunnel?: string | undefined;
  readonly module: string | undefined;
  readonly adminHostname: string;
  readonly adminPort: number;
  /** The number of this process among its parent's workers; undefined if it is not a worker. */
  readonly worker?: number | undefined;
  /** True if this process runs one isolated agent. */
  readonly isIsolated: boolean;
}

/**
 * Resolves when the process has stopped after a signal. Rejects with `CliError` if `worker` is set
 * but no parent started this process, and with the error that made the start fail.
 */
export async function serveRole(
  joins: Joins,
  terminal: Terminal,
  options: ServingOptions,
): Promise<void> {
  const { role, log, adminHostname, adminPort } = options;
  const link = linkOf(joins, options);
  const allowsLoopback = role === "dev" || options.mcpAllowLoopback === true;
  const { begun, prepared } = await beginAndPrepare(joins, terminal, {
    ...options,
    role,
    time: joins.time,
  });
  const settings = {
    ...options,
    module: prepared.module,
    env: prepared.env,
    ...(options.isIsolated
      ? // The module is loaded as `dev` loads it, but the gateway runs only in the worker.
        ({ role: "host", mcpAllowLoopback: allowsLoopback, isolated: link?.onIsolated } as const)
      : role === "host"
        ? { leases: keptLeases(joins, link), isolation: link?.isolation }
        : {}),
  };
  await serve(
    { time: joins.time, ...begun },
    { settings, adminHostname, adminPort, stopped: link?.stopped },
    ({ running, adminPort: port }) => {
      const admin = `http://${hostAndPort(adminHostname, port)}`;
      log.info(`${role} serves`, {
        module: shownPath(terminal.cwd, prepared.module.file),
        agents: [...prepared.module.agents.keys()].join(","),
        ...(running.port !== undefined && {
          url: `http://${hostAndPort(options.hostname, running.port)}`,
        }),
        ...(running.smtpPort !== undefined && {
          smtp: hostAndPort(options.hostname, running.smtpPort),
        }),
        nats: running.natsSummary,
        namespace: options.namespace,
        admin,
      });
      link?.serves({ admin, host: running.id });
      return () => log.info(`${role} stops`);
    },
  );
  log.info(`${role} stopped`);
}

/** Returns a worker's channel. Throws `CliError` if this process was not started as a worker. */
export function linkOf(
  { link }: Pick<Joins, "link">,
  { worker }: Pick<ServingOptions, "worker">,
): WorkerLink | undefined {
  if (worker === undefined) return undefined;
  if (link === undefined)
    throw usage("--worker is set by a control process for its workers, not by hand");
  return link;
}

/** The leases that the control process keeps; undefined in a process that is no worker. */
export const keptLeases = (
  { time }: Pick<Joins, "time">,
  link: WorkerLink | undefined,
): ProcessSettings["leases"] =>
  link === undefined ? undefined : (own) => channelLeases(own, link.leases, time);
