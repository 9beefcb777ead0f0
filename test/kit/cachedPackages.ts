/** Packages from npm for commands outside the suite, installed once, in named releases. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const CACHE = fileURLToPath(new URL("../../node_modules/.cache/", import.meta.url));

/** The folder, in which `package.json` is this one and its dependencies are installed. */
export function cachedPackages(name: string, manifest: object): string {
  const folder = join(CACHE, name);
  const file = join(folder, "package.json");
  const text = JSON.stringify({ private: true, type: "module", ...manifest });
  if (existsSync(join(folder, "node_modules")) && readFileSync(file, "utf8") === text)
    return folder;
  mkdirSync(folder, { recursive: true });
  writeFileSync(file, text);
  const quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps", "--silent"];
  execFileSync("npm", ["install", ...quiet], {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
  });
  return folder;
}
