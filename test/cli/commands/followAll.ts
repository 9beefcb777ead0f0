/** `agents export --follow` of one stream in memory, up to its last event. */
import { followChanges } from "../../../services/cli/agents/followChanges.ts";
import { machineTime } from "../../../services/node/MachineTime.ts";

const changesTo = (end: number) => ({
  streams: async () => [{ created: "", end }],
  between: () => [],
  groupOf: () => 0,
});
const terminal = { out: () => undefined, err: () => undefined };

/** Settles as `followChanges` does. `ports`: all others that it uses. */
export const followAll = (ports: object, end: number): Promise<void> =>
  followChanges({ ...ports, changes: changesTo(end) } as never, terminal as never, machineTime, {
    className: undefined,
    name: undefined,
  });
