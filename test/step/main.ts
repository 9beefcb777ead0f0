/**
 * `npm run step-kills [-- --times <n>]`: turns with steps, fibers and workflows, while their hosts
 * are killed this many times (10) at each named point. It runs `dist/`: build first. Exits with 1
 * if a rule did not hold.
 */
import { parseArgs } from "node:util";
import { ALL_POINTS, killSteps } from "./KillRig.ts";

const { values } = parseArgs({ options: { times: { type: "string", default: "10" } } });
const { kills, deaths, wrong } = await killSteps(Number(values.times), ALL_POINTS, (line) =>
  console.log(line),
);
console.log(
  `${kills} kills, ${deaths} deaths of hosts, ${wrong.length} of what has to hold did not`,
);
for (const each of wrong) console.log(`  ${each}`);
process.exitCode = wrong.length === 0 ? 0 : 1;
