/**
 * `agents provision`: creates what an installation keeps in the broker, or completes what is there.
 * Run once by whoever operates the broker; running it again changes nothing.
 */
import type { Joins, ProvisionSettings, Target } from "../../wiring/Joins.ts";
import type { Terminal } from "../Terminal.ts";

export async function provision(
  joins: Pick<Joins, "provision">,
  terminal: Terminal,
  options: {
    readonly target: Target;
    readonly settings: ProvisionSettings;
    readonly json: boolean;
  },
): Promise<void> {
  const lines = await joins.provision(options.target, options.settings);
  if (options.json)
    terminal.out(JSON.stringify({ namespace: options.target.namespace, result: lines }));
  else for (const line of lines) terminal.out(line);
}
