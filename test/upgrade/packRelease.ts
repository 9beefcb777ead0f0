/** Packages of two releases beside each other: what a commit packs, with modules of ours. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Release } from "../membership/Fleet.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** In an app they lie beside each other as here. */
const MODULES = ["upgrade/storedModule.ts", "membership/memberModule.ts"] as const;

function run(cwd: string, command: string, ...args: ReadonlyArray<string>): void {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: "utf8" });
  if (status !== 0)
    throw new Error(`${command} ${args.join(" ")} in ${cwd} ended with ${status}:\n${stdout}${stderr}`); // prettier-ignore
}

/** `commit` undefined: of the working tree, as `npm run build` has left it. */
export function packRelease(name: string, folder: string, commit: string | undefined): Release {
  const source = commit === undefined ? ROOT : join(folder, "source");
  if (commit !== undefined) {
    mkdirSync(source, { recursive: true });
    const archive = execFileSync("git", ["archive", commit], { cwd: ROOT, maxBuffer: 2 ** 30 });
    execFileSync("tar", ["-x"], { cwd: source, input: archive });
    run(source, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund");
  }
  const packed = join(folder, "packed");
  mkdirSync(packed, { recursive: true });
  run(source, "npm", "pack", "--silent", "--pack-destination", packed);
  const app = join(folder, "app");
  mkdirSync(app);
  writeFileSync(join(app, "package.json"), JSON.stringify({ type: "module", private: true }));
  const [tarball = ""] = readdirSync(packed);
  run(app, "npm", "install", "--no-audit", "--no-fund", join(packed, tarball));
  for (const file of MODULES) {
    const text = readFileSync(join(ROOT, "test", file), "utf8");
    mkdirSync(dirname(join(app, file)));
    writeFileSync(join(app, file), text.replaceAll('from "agents', 'from "turnkeep'));
  }
  const main = join(app, "node_modules/turnkeep/dist/services/cli/main.js");
  return { name, main, module: join(app, MODULES[0]) };
}
