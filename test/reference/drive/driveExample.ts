/**
 * Drives one example on the reference's runtime, on this package, and on this package with the
 * reference's own `agents`, and compares what was seen. The reference is right by definition: what
 * it answers is what the others have to answer.
 */
import type { ExampleServer } from "../exampleServers.ts";
import { shownName } from "../loadingTable.ts";
import { withInstalledAgents } from "../withInstalledAgents.ts";
import type { Drive } from "./Drive.ts";
import type { Compared, DrivenRow } from "./drivenTable.ts";
import { Driver, NO_ANSWER } from "./Driver.ts";
import type { LocalServices } from "./LocalServices.ts";
import { startOurs, startReference, type RunningServer } from "./servers.ts";

/** What was seen, or why nothing was. */
type Driven = ReadonlyMap<string, string> | Error;

export interface DriveParts {
  readonly drive: Drive;
  readonly services: LocalServices;
  /** The checkout. */
  readonly root: string;
  readonly say: (line: string) => void;
}

export async function driveExample(server: ExampleServer, parts: DriveParts): Promise<DrivenRow> {
  const { drive, services, root } = parts;
  const env = drive.env?.(services) ?? {};
  const say = (line: string): void => parts.say(`${server.name}: ${line}`);
  const driven = (start: () => Promise<RunningServer>): Promise<Driven> =>
    driveOne(drive, services, start);
  const reference = await driven(() => startReference(server, env, root));
  if (reference instanceof Error) say(reference.message);
  else for (const [what, seen] of reference) say(`${what}: ${seen}`);
  const here = await driven(() => startOurs(server, env));
  const installed = await withInstalledAgents(server, () => driven(() => startOurs(server, env)));
  return {
    name: shownName(server.name),
    behaviours: reference instanceof Error ? undefined : reference.size,
    here: compared(drive, reference, here, (line) => say(`here: ${line}`)),
    installed: compared(drive, reference, installed, (line) => say(`installed: ${line}`)),
  };
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
    if (driver === undefined) return error as Error;
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
): Compared {
  if (other instanceof Error) {
    say(other.message);
    return { same: undefined, differs: "does not load" };
  }
  if (reference instanceof Error) return { same: undefined, differs: "–" };
  const names = new Set([...reference.keys(), ...other.keys()]);
  // Nothing can be compared with an answer that the reference did not give.
  const differ = [...names].filter(
    (name) => reference.get(name) !== other.get(name) || reference.get(name) === NO_ANSWER,
  );
  for (const name of differ)
    say(`${name}\n  reference: ${reference.get(name)}\n  here:      ${other.get(name)}`);
  const same = [...reference.keys()].filter((name) => !differ.includes(name)).length;
  const shown = same === 0 ? ["everything"] : differ;
  return { same, differs: withReasons(shown, reasons) || "nothing" };
}

/** Each reason once, after the things that differ for it. */
function withReasons(names: ReadonlyArray<string>, reasons: Required<Drive>["reasons"]): string {
  const byReason = new Map<string | undefined, string[]>();
  for (const name of names)
    byReason.set(reasons[name], [...(byReason.get(reasons[name]) ?? []), name]);
  return [...byReason]
    .map(([reason, each]) => each.join(", ") + (reason === undefined ? "" : ` (${reason})`))
    .join("; ");
}
