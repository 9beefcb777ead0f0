/**
 * A process that starts a backup and completes only some of its ranges, for tests that kill or
 * interrupt it: `backupPart.ts <url> <namespace> <folder>`. The other ranges start, and hang.
 */
import { backup } from "../../services/cli/commands/backup.ts";
import { CliError } from "../../services/cli/terminal/CliError.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import type { ReadPorts } from "../../services/wiring/ReadPorts.ts";
import { openReader } from "../../services/wiring/joinReader.ts";
import { SIZES, terminalAt } from "./backupSizes.ts";

const [natsUrl = "", namespace = "", folder = ""] = process.argv.slice(2);
/** Ranges that are saved, and events of one that is not. */
const WHOLE = 3;
const EVENTS = 5;

const ports = await openReader({ natsUrl, namespace });
let ranges = 0;
const hanging: ReadPorts = {
  ...ports,
  changes: {
    ...ports.changes,
    between: async function* (group, range) {
      const hangs = ++ranges > WHOLE;
      let events = 0;
      for await (const entry of ports.changes.between(group, range)) {
        // A timer, so that the process lives.
        if (hangs && ++events > EVENTS) await new Promise((resolve) => setTimeout(resolve, 3_600_000)); // prettier-ignore
        yield entry;
      }
    },
  },
};
const ended = backup((use) => use(hanging), terminalAt("/").terminal, machineTime, {
  folder,
  since: undefined,
  json: true,
  sizes: SIZES,
});
// As a command line ends.
await ended.catch((error: unknown) => {
  if (!(error instanceof CliError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(error.exitCode);
});
