/**
 * What `npm run build` does after tsc: removes what tsc wrote for sources that are gone, gathers
 * the declarations (`declarations`), copies what the package brings along (`vendor`), and bundles
 * what commands that only read need (`reading`) and the console's page (`page`). All but the first
 * are left as they are while their inputs are what they were.
 */
import { chmodSync, existsSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { writeDeclarations } from "./declarations.ts";
import { bundlePage } from "./page.ts";
import { bundleReading } from "./reading.ts";
import { vendor } from "./vendor.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const STAMP = join(ROOT, "dist/.packaged");

const changedMs = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

/** Files in `dist`, relative to it. */
const compiled = ["schemas", "core", "services"].flatMap((layer) =>
  readdirSync(join(ROOT, "dist", layer), { recursive: true, encoding: "utf8" })
    .map((path) => join(layer, path))
    .filter((path) => /\.(?:js|js\.map|d\.ts)$/.test(path)),
);
const gone = compiled.filter(
  (path) => !existsSync(join(ROOT, path.replace(/\.(?:js|js\.map|d\.ts)$/, ".ts"))),
);
for (const path of gone) rmSync(join(ROOT, "dist", path));

const inputs = [
  "package.json",
  "package-lock.json",
  "package/vendor.ts",
  "package/declarations.ts",
  ...compiled.filter((path) => path.endsWith("ts")).map((path) => join("dist", path)),
];
const stampMs = changedMs(STAMP);
if (
  stampMs === 0 ||
  gone.length > 0 ||
  inputs.some((path) => changedMs(join(ROOT, path)) > stampMs)
) {
  // Both resolve imports of what dist has: they have to find the packages themselves.
  rmSync(join(ROOT, "dist/node_modules"), { recursive: true, force: true });
  await writeDeclarations(ROOT);
  await vendor(ROOT);
  writeFileSync(STAMP, "");
}
await bundleReading(ROOT);
await bundlePage(ROOT);
chmodSync(join(ROOT, "dist/services/cli/main.js"), 0o755);
