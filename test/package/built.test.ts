/** What `npm run build` makes of dist, and what package.json promises about an install. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const json = (path: string) => JSON.parse(readFileSync(ROOT + path, "utf8")) as Manifest;

interface Manifest {
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly exports?: Readonly<Record<string, { readonly types?: string }>>;
  readonly packages?: Readonly<
    Record<string, { readonly dev?: boolean; readonly hasInstallScript?: boolean }>
  >;
}

it("the binaries of esbuild that a user's install may choose from are those of its own version", () => {
  const { optionalDependencies } = json("package.json");
  expect(optionalDependencies).toEqual(
    json("node_modules/esbuild/package.json").optionalDependencies,
  );
  expect(json("dist/node_modules/esbuild/package.json").version).toBe(
    optionalDependencies!["@esbuild/linux-x64"],
  );
});

it("nothing that a user's install brings has an install script", () => {
  const installed = Object.entries(json("package-lock.json").packages!).filter(([, at]) => !at.dev);
  expect(installed.length).toBeGreaterThan(20);
  expect(installed.filter(([, at]) => at.hasInstallScript).map(([path]) => path)).toEqual([]);
});

it("every entry has declarations, which import only what a user's install has", () => {
  const { exports, dependencies } = json("package.json");
  for (const [entry, target] of Object.entries(exports!))
    if (target.types !== undefined) expect(existsSync(ROOT + target.types), entry).toBe(true);
  const known = new Set([...Object.keys(dependencies!), "react"]);
  const unknown = readdirSync(`${ROOT}dist/types`, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".d.ts"))
    .flatMap((path) => {
      const text = readFileSync(`${ROOT}dist/types/${path}`, "utf8").replace(/\/\*[^]*?\*\//g, "");
      return [...text.matchAll(/\b(?:from|import\()\s*["']([^."'][^"']*)["']/g)].map((m) => m[1]!);
    })
    .filter((name) => !known.has(name) && !builtinModules.includes(name.replace("node:", "")));
  expect(unknown).toEqual([]);
});
