/**
 * `npm run reference -- <checkout> [--under <folder>]… [--installed | --drive [--only <name>]]
 * [--write]`: loads each server of a checkout of the reference's repository, unmodified, with this
 * package's loader, and prints which of them load. `--under` names the folders whose servers count
 * (`examples`, `guides` and `openai-sdk`). `--installed`: their `agents` is the reference's own
 * package. `--drive`: those that need no other service are used, here and on the reference's
 * runtime, and what differs is printed (`--only`: one of them). `--write` puts the
 * table, or the rows of what was driven, into `docs/evidence/conformance.md`.
 *
 * Nothing of the checkout is part of the project. Packages that the servers import, and `miniflare`
 * for `--drive`, are installed in the checkout's root beforehand; `--drive` refuses without them.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { missingPackages } from "./drive/bundle.ts";
import { driveExample } from "./drive/driveExample.ts";
import { drivenTable, rowsOf } from "./drive/drivenTable.ts";
import { DRIVES } from "./drive/drives.ts";
import { startLocalServices } from "./drive/LocalServices.ts";
import { importMiniflare, OURS } from "./drive/servers.ts";
import { exampleServers, type ExampleServer } from "./exampleServers.ts";
import { loadApart, type Loading } from "./loadApart.ts";
import { loadingTable, type LoadingRow } from "./loadingTable.ts";
import { needsOf } from "./needsOf.ts";
import { withInstalledAgents } from "./withInstalledAgents.ts";

const PAGE = new URL("../../docs/evidence/conformance.md", import.meta.url);
const END = "<!-- end -->";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    under: { type: "string", multiple: true },
    installed: { type: "boolean", default: false },
    drive: { type: "boolean", default: false },
    only: { type: "string" },
    write: { type: "boolean" },
  },
});
const { installed, drive } = values;
const [checkout] = positionals;
if (checkout === undefined)
  throw new Error(
    "Give the folder of a checkout of the reference's repository: npm run reference -- ../agents",
  );
const root = resolve(checkout);
const under = values.under ?? ["examples", "guides", "openai-sdk"];
for (const folder of under)
  if (!existsSync(join(root, folder)))
    throw new Error(`${root} has no folder ${folder}: is it a checkout of the reference's repository?`); // prettier-ignore
if (drive) {
  await importMiniflare(root);
  if (!existsSync(OURS)) throw new Error("--drive starts the built package: npm run build first");
}

const servers = exampleServers(root, under);
if (drive) await driveAll();
else await loadAll();

/** Each row is written when it is there: the whole takes half an hour. */
async function driveAll(): Promise<void> {
  const section = "npm run reference -- --drive";
  const meant = servers.filter(({ name }) => DRIVES[name] !== undefined && isMeant(name));
  await refuseMissing(meant);
  const services = await startLocalServices();
  const rows = new Map(rowsOf(readSection(section)).map((row) => [row.name, row]));
  for (const server of meant) {
    const given = DRIVES[server.name]!;
    const row = await driveExample(server, { drive: given, services, root, say: console.log });
    console.log(`\n${drivenTable([row])}\n`);
    rows.set(row.name, row);
    if (values.write === true) writeSection(section, drivenTable([...rows.values()]));
  }
  await services.stop();
}

/** Throws an error that names the packages that the checkout lacks, by example. */
async function refuseMissing(meant: ReadonlyArray<ExampleServer>): Promise<void> {
  const lines: string[] = [];
  const all: string[] = [];
  for (const { name, module } of meant) {
    const missing = await missingPackages(module);
    if (missing.length > 0) lines.push(`  ${name}: ${missing.join(", ")}`);
    all.push(...missing);
  }
  if (all.length > 0)
    throw new Error(
      `The checkout lacks packages of these examples:\n${lines.join("\n")}\nInstall them:\n  ${installCommand(all)}`,
    );
}

/** It saves them: with `--no-save`, npm removes what an earlier one has installed. */
function installCommand(packages: ReadonlyArray<string>): string {
  const names = [...new Set(packages)].toSorted().join(" ");
  return `npm install --prefix ${root} --legacy-peer-deps --ignore-scripts ${names}`;
}

/** `--only` is the end of a path: `mcp`, `examples/mcp`. */
function isMeant(name: string): boolean {
  const { only } = values;
  return only === undefined || name === only || name.endsWith(`/${only}`);
}

/** Says, too, how to install the packages that were asked for in vain. */
async function loadAll(): Promise<void> {
  const loadings: LoadingRow[] = [];
  for (const server of servers) {
    const load = (): Promise<Loading> => loadApart(server, root);
    const loading = await (installed ? withInstalledAgents(server, load) : load());
    loadings.push({ ...loading, needs: needsOf(server) });
    console.log(`${loading.loads ? "loads" : "     "}  ${loading.name}  ${loading.reason ?? ""}`);
  }
  const table = loadingTable(loadings);
  console.log(`\n${table}`);
  const missing = loadings.flatMap(({ packages }) => packages);
  if (missing.length > 0) console.log(`\n${installCommand(missing)}`);
  if (values.write === true)
    writeSection(`npm run reference${installed ? " -- --installed" : ""}`, table);
}

/** Where the part of the page that a command wrote begins and ends. */
function placeOf(page: string, command: string): readonly [begin: number, end: number] {
  const line = `<!-- ${command} -->\n`;
  const at = page.indexOf(line);
  if (at < 0) throw new Error(`${PAGE.pathname} has no line ${line}`);
  return [at + line.length, page.indexOf(END, at)];
}

function readSection(command: string): string {
  const page = readFileSync(PAGE, "utf8");
  return page.slice(...placeOf(page, command));
}

function writeSection(command: string, text: string): void {
  const page = readFileSync(PAGE, "utf8");
  const [begin, end] = placeOf(page, command);
  writeFileSync(PAGE, `${page.slice(0, begin)}\n${text}\n\n${page.slice(end)}`);
}
