/**
 * The site's sidebar has each page that a reader could look for, once, and no other. Whether links
 * lead somewhere, and whether the search knows each page, `npm run docs:site` says itself.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import config from "../../docs/.vitepress/config.mts";

const DOCS = fileURLToPath(new URL("../../docs", import.meta.url));
/** Each of their pages is in a list of its own: the first page of the folder. */
const LISTED = /^(?:decisions|reference\/api)\/(?!README)/;

it("the sidebar has every page", () => {
  const pages = readdirSync(DOCS, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md") && path !== "README.md" && !LISTED.test(path))
    .map((path) => `/${path.replace(/\.md$/, "")}`);
  const links = config.themeConfig.sidebar.flatMap(({ items }) => items.map(({ link }) => link));
  expect(links.toSorted()).toEqual(pages.toSorted());
});

it("each screenshot is shown, and all of them are small", () => {
  const screens = readdirSync(join(DOCS, "screens"));
  const watching = readFileSync(join(DOCS, "operations/watching.md"), "utf8");
  expect(screens.filter((name) => !watching.includes(`](../screens/${name})`))).toEqual([]);
  const bytes = screens.map((name) => statSync(join(DOCS, "screens", name)).size);
  expect(bytes.reduce((sum, size) => sum + size, 0)).toBeLessThan(300_000); // in each install
});
