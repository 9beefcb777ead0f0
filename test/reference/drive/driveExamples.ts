/**
 * Drives each example on the reference's runtime, on this package, and on this package with the
 * reference's own `agents`, and makes the table of what was seen and what differs. The reference is
 * right by definition: what it answers is what the others have to answer.
 */
import type { ExampleServer } from "../exampleServers.ts";
import { withInstalledAgents } from "../withInstalledAgents.ts";
import { shownName } from "../loadingTable.ts";
import type { Drive } from "./Drive.ts";
import { Driver } from "./Driver.ts";
import { DRIVES } from "./drives.ts";
import { startLocalServices, type LocalServices } from "./LocalServices.ts";
import { startOurs, startReference, type RunningServer } from "./servers.ts";

/** What was seen, or why nothing was. */
type Driven = ReadonlyMap<string, string> | Error;
interface Comparison {
  readonly cell: string;
  /** Things seen that are the same; undefined where one of the two could not be driven. */
  readonly same: number | undefined;
}

/** `only`: names that contain this text. Resolves to a table in Markdown; `say` gets details. */
export async function driveExamples(
  servers: ReadonlyArray<ExampleServer>,
  root: string,
  { only = "", say }: { readonly only?: string | undefined; readonly say: (line: string) => void },
): Promise<string> {
  const services = await startLocalServices();
  const rows: string[] = [];
  const totals = { examples: 0, seen: 0, here: { loads: 0, same: 0 }, installed: { loads: 0, same: 0 } }; // prettier-ignore
  for (const server of servers) {
    const { name } = server;
    const drive = DRIVES[name];
    if (drive === undefined || !name.includes(only)) continue;
    const env = drive.env?.(services) ?? {};
    const driven = (start: () => Promise<RunningServer>): Promise<Driven> =>
      driveOne(drive, services, start);
    const reference = await driven(() => startReference(server, env, root));
    const here = await driven(() => startOurs(server, env));
    const installed = await withInstalledAgents(server, () => driven(() => startOurs(server, env)));
    totals.examples += 1;
    if (reference instanceof Error) say(`${name}: ${reference.message}`);
    else {
      totals.seen += reference.size;
      for (const [what, seen] of reference) say(`${name}: ${what}: ${seen}`);
    }
    const cells = Object.entries({ here, installed }).map(([where, each]) => {
      const { cell, same } = compared(drive, reference, each, (line) =>
        say(`${name}, ${where}: ${line}`),
      );
      const total = totals[where as "here" | "installed"];
      total.loads += same === undefined ? 0 : 1;
      total.same += same ?? 0;
      return cell;
    });
    const count = reference instanceof Error ? "does not start" : reference.size;
    rows.push(`| ${shownName(name)} | ${count} | ${cells.join(" | ")} |`);
    say(rows.at(-1)!);
  }
  await services.stop();
  const { examples, seen, here, installed } = totals;
  return [
    `${examples} examples, ${seen} behaviours. Here ${here.loads} load, and ${here.same} behaviours are the same. ` +
      `With the reference's own package ${installed.loads} load, and ${installed.same} are the same.`,
    "",
    "| example | behaviours | differs here | differs with the reference's own package |",
    "| --- | --- | --- | --- |",
    ...rows,
  ].join("\n");
}

async function driveOne(
  { run }: Drive,
  services: LocalServices,
  start: () => Promise<RunningServer>,
): Promise<Driven> {
  let server: RunningServer | undefined;
  let driver: Driver | undefined;
  try {
    server = await start();
    driver = new Driver(server.url);
    await run(driver, services);
    return driver.seen;
  } catch (error) {
    if (driver === undefined || driver.seen.size === 0) return error as Error;
    driver.seen.set("the rest", (error as Error).message);
    return driver.seen;
  } finally {
    await driver?.close();
    await server?.stop();
  }
}

function compared(
  { reasons = {} }: Drive,
  reference: Driven,
  other: Driven,
  say: (line: string) => void,
): Comparison {
  if (other instanceof Error) {
    say(other.message);
    return { cell: "does not load", same: undefined };
  }
  if (reference instanceof Error) return { cell: "–", same: undefined };
  const names = new Set([...reference.keys(), ...other.keys()]);
  const differ = [...names].filter((name) => reference.get(name) !== other.get(name));
  for (const name of differ)
    say(`${name}\n  reference: ${reference.get(name)}\n  here:      ${other.get(name)}`);
  const cell = differ.map((name) => (name in reasons ? `${name} (${reasons[name]})` : name));
  const same = [...reference.keys()].filter((name) => !differ.includes(name)).length;
  return { cell: cell.join(", ") || "nothing", same };
}
