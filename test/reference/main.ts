/**
 * `npm run reference -- <checkout> [--under <folder>]… [--installed | --drive [--only <name>]] [--write]`:
 * loads each server of a checkout of the reference's repository, unmodified, with this package's
 * loader, and prints which of them load. `--installed`: their `agents` is the reference's own
 * package. `--drive`: those that need no other service are used (of one name), here and on the
 * reference's runtime, and what differs is printed. `--write` puts the table into
 * `docs/evidence/conformance.md`.
 *
 * Nothing of the checkout is part of the project. Packages that the servers import, and `miniflare`
 * for `--drive`, are installed in the checkout's root beforehand.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { driveExamples } from "./drive/driveExamples.ts";
import { exampleServers } from "./exampleServers.ts";
import { loadApart, type Loading } from "./loadApart.ts";
import { loadingTable } from "./loadingTable.ts";
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
  throw new Error("Give the folder of a checkout: npm run reference -- ../agents");

const root = resolve(checkout);
const servers = exampleServers(root, values.under ?? ["examples", "guides", "openai-sdk"]);
const table = drive
  ? await driveExamples(servers, root, { only: values.only, say: console.log })
  : await loadAll();
console.log(`\n${table}`);
if (values.write === true) {
  const page = readFileSync(PAGE, "utf8");
  const options = drive ? " -- --drive" : installed ? " -- --installed" : "";
  const begin = `<!-- npm run reference${options} -->\n`;
  const at = page.indexOf(begin);
  if (at < 0) throw new Error(`${PAGE.pathname} has no line ${begin}`);
  const rest = page.slice(page.indexOf(END, at));
  writeFileSync(PAGE, `${page.slice(0, at)}${begin}\n${table}\n\n${rest}`);
}

/** Says, too, how to install the packages that were asked for in vain. */
async function loadAll(): Promise<string> {
  const loadings: Loading[] = [];
  for (const server of servers) {
    const load = (): Promise<Loading> => loadApart(server, root);
    const loading = await (installed ? withInstalledAgents(server, load) : load());
    loadings.push(loading);
    console.log(`${loading.loads ? "loads" : "     "}  ${loading.name}  ${loading.reason ?? ""}`);
  }
  const missing = [...new Set(loadings.flatMap(({ packages }) => packages))].toSorted();
  if (missing.length > 0)
    console.log(
      `\nnpm install --prefix ${root} --no-save --legacy-peer-deps --ignore-scripts ${missing.join(" ")}`,
    );
  return loadingTable(loadings);
}
