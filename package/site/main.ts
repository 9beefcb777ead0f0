/**
 * `npm run docs:site`: builds the pages of `docs` into `.site/html` with VitePress, with a search
 * that needs no server. VitePress is installed into `.site` once, since nothing else here needs it.
 */
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SITE = join(ROOT, ".site");
const VITEPRESS_VERSION = "1.6.4";

const run = (command: string, ...args: ReadonlyArray<string>): void =>
  void execFileSync(command, args, { cwd: SITE, stdio: "inherit" });

mkdirSync(SITE, { recursive: true });
const manifest = {
  private: true,
  type: "module",
  devDependencies: { vitepress: VITEPRESS_VERSION },
};
writeFileSync(join(SITE, "package.json"), JSON.stringify(manifest));
if (!existsSync(join(SITE, "node_modules/vitepress"))) run("npm", "install", "--ignore-scripts");
rmSync(join(SITE, "docs"), { recursive: true, force: true });
cpSync(join(ROOT, "docs"), join(SITE, "docs"), { recursive: true });
run(join(SITE, "node_modules/.bin/vitepress"), "build", "docs");
console.log(
  `\nThe site is in ${join(SITE, "html")}: npx vitepress preview docs, in ${SITE}, serves it.`,
);
