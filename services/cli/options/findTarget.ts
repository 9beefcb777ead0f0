/**
 * Finds the installation that a command works on: the broker of `--nats`, else the running dev
 * server of this folder. The error says where it looked.
 */
import { NAMESPACE_DEFAULT } from "../../../schemas/Subjects.ts";
import type { BrokerLogin, Target } from "../../wiring/ReadPorts.ts";
import { findDev } from "../serving/devFile.ts";
import { failed } from "../terminal/CliError.ts";
import { shownPath } from "../terminal/Terminal.ts";

interface TargetOptions {
  /** `--nats` or `NATS_URL`. */
  readonly nats: string | undefined;
  /** For the broker that `nats` names. A dev server's own broker needs no login. */
  readonly login?: BrokerLogin | undefined;
  /** Undefined: the dev server's namespace, or the default. */
  readonly namespace: string | undefined;
  /** Absolute. */
  readonly dataFolder: string;
  readonly cwd: string;
}

/** Throws `CliError` if no broker is named and no dev server runs. */
export function findTarget(options: TargetOptions): Target {
  if (options.nats !== undefined)
    return {
      natsUrl: options.nats,
      login: options.login,
      namespace: options.namespace ?? NAMESPACE_DEFAULT,
    };
  const found = findDev(options.dataFolder);
  const folder = shownPath(options.cwd, options.dataFolder);
  const remedy = `Start one (agents dev), specify its folder (--data), or specify a broker (--nats nats://…)`;
  if (found._tag === "None")
    throw failed(`No dev server runs with its data in ${folder}. ${remedy}.`);
  if (found._tag === "Stale")
    throw failed(`The dev server of ${folder} (process ${found.pid}) has ended. ${remedy}.`);
  return { natsUrl: found.dev.natsUrl, namespace: options.namespace ?? found.dev.namespace };
}
