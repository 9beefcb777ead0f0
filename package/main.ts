/**
 * What `npm run build` does after tsc: the vendored files (`vendor`) and the declarations
 * (`declarations`). Does nothing while tsc's output and the lock file are what they were.
 */
import { chmodSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { writeDeclarations } from "./declarations.ts";
import { vendor } from "./vendor.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const STAMP = join(ROOT, "dist/.packaged");

const changedMs = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

const inputs = [
  ...["package.json", "package-lock.json", "package/vendor.ts", "package/declarations.ts"],
  ...["schemas", "core", "services"].flatMap((layer) =>
    readdirSync(join(ROOT, "dist", layer), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith("ts"))
      .map((path) => join("dist", layer, path)),
  ),
];
const stampMs = changedMs(STAMP);
if (stampMs === 0 || inputs.some((path) => changedMs(join(ROOT, path)) > stampMs)) {
  // Both resolve imports of what dist has: they have to find the packages themselves.
  rmSync(join(ROOT, "dist/node_modules"), { recursive: true, force: true });
  await writeDeclarations(ROOT);
  await vendor(ROOT);
  writeFileSync(STAMP, "");
}
chmodSync(join(ROOT, "dist/services/cli/main.js"), 0o755);
