/** `.assetsignore`: the syntax of `.gitignore`. The table is what `git check-ignore` says. */
import { describe, expect, it } from "vitest";
import { AssetsIgnore } from "../../services/wrangler/AssetsIgnore.ts";

const ignored = (text: string, path: string): boolean =>
  new AssetsIgnore(text).ignores(path.split("/"));

describe("a file is not served", () => {
  it.each([
    ["a.txt", "a.txt"],
    ["a.txt", "x/y/a.txt"],
    ["/a.txt", "a.txt"],
    ["x/a.txt", "x/a.txt"],
    ["x", "x/y/a.txt"],
    ["x/", "x/a.txt"],
    ["*.map", "x/app.js.map"],
    ["a?c", "abc"],
    ["[ab].js", "b.js"],
    ["[!ab].js", "c.js"],
    ["[a-c].js", "b.js"],
    ["**/a.txt", "a.txt"],
    ["**/y/a.txt", "x/y/a.txt"],
    ["x/**", "x/y/a.txt"],
    ["x/**/a.txt", "x/a.txt"],
    ["x/**/a.txt", "x/y/z/a.txt"],
    ["**/**/a.txt", "a.txt"],
    ["x/*", "x/y/a.txt"],
    ["*\n!b.txt", "a.txt"],
    ["x/\n!x/a.txt", "x/a.txt"],
    ["!a.txt\na.txt", "a.txt"],
    ["\\#a", "#a"],
    ["\\!a", "!a"],
    ["a\\*b", "a*b"],
    ["a.txt  \r\nb", "a.txt"],
    ["a.txt   \nb", "a.txt"],
    ["\ufeffa.txt", "a.txt"],
    ["", "_headers"],
    ["!_redirects", "_redirects"],
    ["", "_worker.js/index.js"],
    ["!.assetsignore", ".assetsignore"],
  ])("by %j: %s", (text, path) => expect(ignored(text, path)).toBe(true));
});

describe("a file is served", () => {
  it.each([
    ["", "a.txt"],
    ["a.txt", "a.txt.html"],
    ["a.txt", "ba.txt"],
    ["a.txt", "aXtxt"],
    ["/a.txt", "x/a.txt"],
    ["x/a.txt", "y/x/a.txt"],
    ["a.txt/", "a.txt"],
    ["*.map", "map"],
    ["x*z", "x/z"],
    ["a?c", "a/c"],
    ["[!a].js", "a.js"],
    ["[z-a].js", "b.js"],
    ["*\n!b.txt", "b.txt"],
    ["# a.txt", "a.txt"],
    ["a\\*b", "axb"],
    ["x/**", "x"],
    ["", "docs/_headers"],
  ])("by %j: %s", (text, path) => expect(ignored(text, path)).toBe(false));
});
