/** What the hooks of modules read themselves, and what they leave to tsx. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { hooksMix } from "../../services/module/loadModule.ts";
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

it("the releases whose synchronous hooks are used are those of tsx", () => {
  const dist = dirname(fileURLToPath(import.meta.resolve("tsx")));
  const code = readdirSync(dist).filter((name) => name.endsWith(".mjs")).map((name) => readFileSync(join(dist, name), "utf8")); // prettier-ignore
  const [, table = ""] = /=(\[\[22,\d+,\d+\](?:,\[2\d,\d+,\d+\]){2},\[26,0,0\]\])/.exec(code.join("\n"))!; // prettier-ignore
  const firsts = JSON.parse(table) as ReadonlyArray<readonly [number, number, number]>;
  for (const [major, minor, patch] of firsts) {
    expect(hooksMix(`${major}.${minor}.${patch}`)).toBe(true);
    expect(hooksMix(`${major}.${minor + 1}.0`)).toBe(true);
    const before = patch > 0 ? `${major}.${minor}.${patch - 1}` : `${major}.${minor - 1}.99`;
    if (major < 26) expect(hooksMix(before)).toBe(false);
  }
  for (const other of ["20.20.2", "22.15.0", "23.11.0"]) expect(hooksMix(other)).toBe(false);
});
