/** `agents list --quarantined`: the quarantined agents, why, and until when. */
import type { TimeShape } from "../../../core/time/Time.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import type { MarkedAgent } from "../../../core/quarantine/Quarantines.ts";
import { counted } from "../../../schemas/counted.ts";
import { camelCaseToKebabCase } from "../../../schemas/Address.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import type { Terminal } from "../terminal/Terminal.ts";

export async function listQuarantined(
  ports: Pick<ReadPorts, "quarantines">,
  terminal: Terminal,
  time: Pick<TimeShape, "nowMs">,
  {
    className,
    json,
  }: { readonly className: string | undefined; readonly json?: boolean | undefined },
): Promise<void> {
  const found = (await ports.quarantines.list())
    .filter(({ mark }) => mark.untilMs > time.nowMs())
    .filter(({ id }) => className === undefined || isOfClass(id, className))
    .map(quarantineLine);
  for (const one of found)
    terminal.out(
      json
        ? JSON.stringify(one)
        : `${one.class} ${oneLine(one.name)}\n    since ${one.since}, until ${one.until}: ${oneLine(one.reason)}`,
    );
  if (json) return;
  const agents = `${counted(found.length, "agent is", "agents are")} quarantined`;
  terminal.err(found.length === 0 ? "No agent is quarantined." : agents);
}

/**
 * Whether a typed class is the agent's. Does not look for stored agents: a quarantined agent has no
 * journal if its first input ended the process.
 */
export const isOfClass = (of: { readonly class: string }, className: string): boolean =>
  of.class === className || camelCaseToKebabCase(of.class) === className;

/** One line of `--json`. Times are ISO 8601. */
export const quarantineLine = ({ id, mark }: MarkedAgent) => ({
  class: id.class,
  name: id.name,
  kind: mark.kind,
  reason: mark.reason,
  since: new Date(mark.sinceMs).toISOString(),
  until: new Date(mark.untilMs).toISOString(),
  times: mark.times,
  host: mark.host,
});
