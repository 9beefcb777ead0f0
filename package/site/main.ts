/**
 * `npm run docs:site`: builds the pages of `docs` into `.site/html` with VitePress, with a search
 * that needs no server. VitePress is installed into `.site` once, since nothing else here needs it;
 * from then on the build asks no network. A link that leads nowhere fails it, and so does a page
 * that the search does not have.
 */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SITE = join(ROOT, ".site");
const VITEPRESS_VERSION = "1.6.4";
/** Links to files of the repository, which are not part of the site: their text stays. */
const OUTSIDE = /\[([^\]]+)\]\((?:\.\.\/)+(?:examples\/|[A-Z]+\.md)[^)]*\)/g;

const run = (command: string, ...args: ReadonlyArray<string>): void =>
  void execFileSync(command, args, { cwd: SITE, stdio: "inherit" });
const filesIn = (folder: string, ending: RegExp): ReadonlyArray<string> =>
  readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => ending.test(path));

mkdirSync(SITE, { recursive: true });
const manifest = {
  private: true,
  type: "module",
  devDependencies: { vitepress: VITEPRESS_VERSION },
};
writeFileSync(join(SITE, "package.json"), JSON.stringify(manifest));
if (!existsSync(join(SITE, "node_modules/vitepress"))) run("npm", "install", "--ignore-scripts");
const docs = join(SITE, "docs");
rmSync(docs, { recursive: true, force: true });
cpSync(join(ROOT, "docs"), docs, { recursive: true });
const pages = filesIn(docs, /\.md$/);
for (const page of pages) {
  const text = readFileSync(join(docs, page), "utf8");
  writeFileSync(join(docs, page), text.replace(OUTSIDE, "$1"));
}
run(join(SITE, "node_modules/.bin/vitepress"), "build", "docs");

const html = join(SITE, "html");
const [index = ""] = filesIn(html, /localSearchIndex.*\.js$/);
const searched = readFileSync(join(html, index), "utf8");
for (const page of pages) {
  const name = page === "README.md" ? "index" : page.replace(/\.md$/, "");
  if (!existsSync(join(html, `${name}.html`))) throw new Error(`the site has no page of ${page}`);
  const url = name === "index" ? "/#" : `/${name}#`;
  if (!searched.includes(url)) throw new Error(`the search does not know ${page}`);
}
console.log(
  `\n${pages.length} pages are in ${html}: npx vitepress preview docs, in ${SITE}, serves it.`,
);
