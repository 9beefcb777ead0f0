/**
 * What `npm run build` does after tsc has written the declarations of all sources: gathers those of
 * the entries (`declarations`), copies what the package brings along (`vendor`), and bundles what
 * runs (`bundle`) and the console's page (`page`). Declarations and copies are left as they are
 * while their inputs are what they were.
 */
import { chmodSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundle } from "./bundle.ts";
import { writeDeclarations } from "./declarations.ts";
import { bundlePage, changedMs } from "./page.ts";
import { vendor } from "./vendor.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const STAMP = join(ROOT, "dist/.packaged");

const inputs = [
  "package.json",
  "package-lock.json",
  "package/vendor.ts",
  "package/declarations.ts",
  ...readdirSync(join(ROOT, "dist/.declarations"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".d.ts"))
    .map((path) => join("dist/.declarations", path)),
];
const stampMs = changedMs(STAMP);
if (inputs.some((path) => changedMs(join(ROOT, path)) > stampMs)) {
  rmSync(join(ROOT, "dist/node_modules"), { recursive: true, force: true });
  await writeDeclarations(ROOT);
  vendor(ROOT);
  writeFileSync(STAMP, "");
}
await bundle(ROOT);
await bundlePage(ROOT);
chmodSync(join(ROOT, "dist/services/cli/main.js"), 0o755);
