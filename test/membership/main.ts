/**
 * `npm run membership [-- --only <part>] [--repeats <n>] [--json <file>]`: hosts and gateways come,
 * go and die while work goes on, as real processes over a real nats-server. Prints tables and JSON;
 * exit code 1 when a rule did not hold. It runs `dist/`: build first.
 */
import { appendFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { describeMachine } from "../bench/rig/describeMachine.ts";
import { printResult } from "../bench/printResult.ts";
import type { Part } from "./Part.ts";
import { rolling } from "./rolling.ts";
import { takeover } from "./takeover.ts";
import { drain } from "./drain.ts";
import { hot } from "./hot.ts";
import { joinLeave } from "./joinLeave.ts";

const PARTS: ReadonlyArray<Part> = [takeover, joinLeave, rolling, drain, hot];

const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true, default: [] },
    repeats: { type: "string", default: "20" },
    json: { type: "string" },
    help: { type: "boolean", default: false },
  },
});

const HELP = `npm run membership [-- options]

${PARTS.map((part) => `  ${part.name.padEnd(12)}${part.about}`).join("\n")}

  --only <part>   only this one; may be repeated
  --repeats <n>   of what is repeated (default 20)
  --json <file>   append each part's JSON there too`;

/** Whether all rules held. */
async function run(part: Part, repeats: number): Promise<boolean> {
  const machine = describeMachine();
  const say = (line: string): void => void process.stderr.write(`  ${line}\n`);
  const { rules, notes, ...result } = await part.run({ repeats, say });
  const told = rules.map(
    ({ rule, holds, saw }) => `${holds ? "holds" : "BROKEN"}: ${rule} (${saw})`,
  );
  const printed = {
    ...result,
    server: "found",
    durability: "not synced",
    notes: [...notes, ...told],
  };
  printResult(part.name, machine, printed, console.log);
  if (values.json !== undefined)
    appendFileSync(values.json, `${JSON.stringify({ part: part.name, machine, rules, ...printed })}\n`); // prettier-ignore
  return rules.every(({ holds }) => holds);
}

const unknown = values.only.filter((name) => !PARTS.some((part) => part.name === name));
const repeats = Number(values.repeats);
if (values.help) console.log(HELP);
else if (unknown.length > 0 || !Number.isInteger(repeats) || repeats < 1) {
  console.error(`no part "${unknown.join(", ")}", or --repeats is no whole number\n\n${HELP}`);
  process.exitCode = 1;
} else
  for (const part of PARTS)
    if (values.only.length === 0 || values.only.includes(part.name))
      if (!(await run(part, repeats))) process.exitCode = 1;
