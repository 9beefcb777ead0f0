#!/usr/bin/env node
/** `npm create turnkeep [folder]`: `turnkeep init` under the name that npm looks for. */
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";

const manifest = createRequire(import.meta.url).resolve("turnkeep/package.json");
const main = join(manifest, "../dist/services/cli/main.js");
const args = [main, "init", ...process.argv.slice(2)];
process.exitCode = spawnSync(process.execPath, args, { stdio: "inherit" }).status ?? 1;
