/** What the hooks of modules read themselves, and what they leave to tsx. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { synchronousHooks } from "../../services/module/moduleHooks.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";

let folder: TempFolder;
let hooks: ReturnType<typeof synchronousHooks>;
beforeAll(() => {
  folder = tempFolder("hooks");
  const given = { selfUrl: urlOf("dist/main.js"), ownFolder: urlOf("dist/"), aliases: {} };
  hooks = synchronousHooks({ ...given, transforms: true, ownAgents: false }, () => undefined);
});
afterAll(() => folder.remove());

const urlOf = (path: string): string =>
  pathToFileURL(folder.path).href + (path === "" ? "" : `/${path}`);

/** The source that the hooks return for a file; `next`: they leave it to others. */
function loaded(path: string): string {
  const file = join(folder.path, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `export default "${path}";`);
  const next = () => ({ format: "module" as const, source: "next", shortCircuit: true });
  const context = {
    conditions: [],
    format: "module" as const,
    importAttributes: {},
    importAssertions: {},
  };
  return String(hooks.load(urlOf(path), context, next).source);
}

it("ES modules of the package's build do not pass tsx, and neither do those of its dependencies", () => {
  for (const path of ["dist/chunks/chunk-A.js", "dist/node_modules/sqlite/node.mjs"])
    expect(loaded(path)).toBe(`export default "${path}";`);
  const context = {
    conditions: [],
    parentURL: urlOf("dist/main.js"),
    importAttributes: {},
    importAssertions: {},
  };
  const next = () => ({ url: "next", shortCircuit: true });
  expect(hooks.resolve("./chunks/chunk-A.js", context, next).url).toBe(urlOf("dist/chunks/chunk-A.js")); // prettier-ignore
});

it("other files do: a dependency that may be CommonJS, the module's own, those of the app", () => {
  for (const path of ["dist/node_modules/ws/index.js", "server.mjs", "node_modules/lib/index.mjs"])
    expect(loaded(path)).toBe("next");
});
