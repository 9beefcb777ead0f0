/**
 * `npm run reference -- <checkout> [--under <folder>]… [--installed] [--write]`: loads each server
 * of a checkout of the reference's repository, unmodified, with this package's loader, and prints
 * which of them load. `--under` takes the folders whose servers count (`examples`, `guides` and
 * `openai-sdk`). `--installed`: their `agents` is the reference's own package. `--write` puts the
 * table into `docs/evidence/conformance.md`.
 *
 * Nothing of the checkout is part of the project. Packages that the servers import are installed in
 * the checkout's root beforehand; the script ends with a line that installs those that are not
 * there.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
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
    write: { type: "boolean" },
  },
});
const { installed } = values;
const [checkout] = positionals;
if (checkout === undefined)
  throw new Error("Give the folder of a checkout: npm run reference -- ../agents");

const root = resolve(checkout);
const servers = exampleServers(root, values.under ?? ["examples", "guides", "openai-sdk"]);
const loadings: Loading[] = [];
for (const server of servers) {
  const load = (): Promise<Loading> => loadApart(server, root);
  const loading = await (installed ? withInstalledAgents(server, load) : load());
  loadings.push(loading);
  console.log(`${loading.loads ? "loads" : "     "}  ${loading.name}  ${loading.reason ?? ""}`);
}

const table = loadingTable(loadings);
console.log(`\n${table}`);
const missing = [...new Set(loadings.flatMap(({ packages }) => packages))].toSorted();
if (missing.length > 0)
  console.log(
    `\nnpm install --prefix ${root} --no-save --legacy-peer-deps --ignore-scripts ${missing.join(" ")}`,
  );
if (values.write === true) {
  const page = readFileSync(PAGE, "utf8");
  const begin = `<!-- npm run reference${installed ? " -- --installed" : ""} -->\n`;
  const at = page.indexOf(begin);
  if (at < 0) throw new Error(`${PAGE.pathname} has no line ${begin}`);
  const rest = page.slice(page.indexOf(END, at));
  writeFileSync(PAGE, `${page.slice(0, at)}${begin}\n${table}\n\n${rest}`);
}
