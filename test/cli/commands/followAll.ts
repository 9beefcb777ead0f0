/** `agents export --follow` of one stream in memory, up to its last event. */
import { followChanges } from "../../../services/cli/agents/followChanges.ts";
import { machineTime } from "../../../services/node/MachineTime.ts";

const changesTo = (end: number) => ({
  streams: async () => [{ created: "", end }],
  between: () => [],
  groupOf: () => 0,
});

/** Settles as `followChanges` does, with the lines. `limit`: ends after so many. */
export async function followAll(ports: object, end: number, limit?: number): Promise<string[]> {
  const lines: string[] = [];
  const terminal = { out: (line: string) => lines.push(line), err: () => undefined };
  await followChanges(
    { ...ports, changes: changesTo(end) } as never,
    terminal as never,
    machineTime,
    { className: undefined, name: undefined, limit },
  );
  return lines;
}
