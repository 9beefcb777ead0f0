/** `agents list --quarantined`: the agents that are set aside, why, and until when. */
import type { TimeShape } from "../../../core/time/Time.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import type { ReadPorts } from "../../wiring/Joins.ts";
import type { Terminal } from "../terminal/Terminal.ts";
import { isOfClass, quarantineLine } from "./release.ts";

export async function listQuarantined(
  ports: Pick<ReadPorts, "quarantines">,
  terminal: Terminal,
  time: Pick<TimeShape, "nowMs">,
  { className, json }: { readonly className: string | undefined; readonly json: boolean },
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
  const agents = `${found.length} ${found.length === 1 ? "agent is" : "agents are"} quarantined`;
  terminal.err(found.length === 0 ? "No agent is quarantined." : agents);
}
