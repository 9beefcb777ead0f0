/**
 * `npm run assistant [-- --times <n>]`: the assistant while its hosts are killed this many times
 * (50) at each named point. It runs `dist/`: build first. Exits with 1 if a rule did not hold.
 */
import { parseArgs } from "node:util";
import { killAtEachPoint } from "./AssistantRig.ts";

const { values } = parseArgs({ options: { times: { type: "string", default: "50" } } });
const { kills, wrong } = await killAtEachPoint(Number(values.times), (line) => console.log(line));
console.log(`${kills} kills, ${wrong.length} of what has to hold did not`);
for (const each of wrong) console.log(`  ${each}`);
process.exitCode = wrong.length === 0 ? 0 : 1;
