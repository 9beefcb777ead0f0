/**
 * `npm run year -- [--agents N] [--turns M] [--days D] [--seed S]`: a year of an installation that
 * keeps thirty days of history and archives the rest (`Year`). Exit code 1 when something did not
 * hold. The archive is a temporary folder, some hundred bytes a turn.
 */
import { randomUUID } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { installLazyFetch } from "../../core/lazyFetch/installLazyFetch.ts";
import { FolderStore } from "../../services/archive/FolderStore.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { simulateYear } from "./Year.ts";

const { values } = parseArgs({
  options: {
    agents: { type: "string", default: "50" },
    turns: { type: "string", default: "1000" },
    days: { type: "string", default: "365" },
    seed: { type: "string", default: "1" },
  },
});
installLazyFetch(); // as in a built process
const begun = process.cpuUsage();
const folder = tempFolder("year");
const { wrong, turns, archived, kills, brokerBytes } = await simulateYear({
  agents: Number(values.agents),
  turns: Number(values.turns),
  days: Number(values.days),
  seed: Number(values.seed),
  store: new FolderStore(folder.path, randomUUID),
  tell: (line) => console.log(line),
});
const archiveBytes = readdirSync(folder.path, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
folder.remove();
const { user, system } = process.cpuUsage(begun);
const mb = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MB`;
console.log(
  `${turns} turns, ${archived} events archived in ${mb(archiveBytes)}; the broker held ${mb(Math.max(...brokerBytes))} at most and ${mb(brokerBytes.at(-1)!)} at the end; ${Math.round((user + system) / 1e6)} s of processor time`,
);
console.log(`killed: ${[...kills].map(([what, count]) => `${what} ${count}`).join(", ")}`);
for (const each of wrong) console.log(`  ${each}`);
console.log(`${wrong.length} of what has to hold did not`);
process.exitCode = wrong.length === 0 ? 0 : 1;
