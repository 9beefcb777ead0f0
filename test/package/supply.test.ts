/** The SBOM names what an install has, also what lies inside the package. Needs `npm run build`. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { beforeAll, expect, it } from "vitest";
import { BUNDLED } from "../../package/page.ts";
import { sbomOf } from "../../package/supply.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const read = (path: string) => JSON.parse(readFileSync(join(ROOT, path), "utf8")) as Manifest;
interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly dependencies: Readonly<Record<string, string>>;
}

let text: string;
let versions: ReadonlyMap<string, string>;
beforeAll(() => {
  text = sbomOf(ROOT);
  const { components } = JSON.parse(text) as { readonly components: ReadonlyArray<Manifest> };
  versions = new Map(components.map(({ name, version }) => [name, version]));
});

it("the notices name each package whose files the tarball has, in its version", () => {
  const folder = "dist/node_modules";
  const inside = readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => /^(?:@[^/]+\/)?[^/]+\/package\.json$/.test(path))
    .map((path) => read(join(folder, path)));
  expect(inside.length).toBeGreaterThan(5);
  for (const { name, version } of inside)
    expect([name, versions.get(name)]).toEqual([name, version]);
});

it("the notices name the packages in the console's script", async () => {
  const { metafile } = await build({
    entryPoints: [join(ROOT, "services/consolePage/main.tsx")],
    absWorkingDir: ROOT,
    outdir: "never",
    write: false,
    bundle: true,
    metafile: true,
    jsx: "automatic",
    define: { "process.env.NODE_ENV": '"production"' },
    loader: { ".css": "empty" },
  });
  const names = Object.keys(metafile.inputs).flatMap(
    (path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? [],
  );
  expect(new Set(names)).toEqual(new Set(BUNDLED));
  for (const name of BUNDLED) expect(versions.has(name)).toBe(true);
});

it("the bill of materials names the dependencies, no development tool, and is the same each time", () => {
  const { dependencies } = read("package.json");
  for (const name of Object.keys(dependencies)) expect(versions.has(name), name).toBe(true);
  for (const name of ["vitest", "typescript", "uWebSockets.js"])
    expect(versions.has(name), name).toBe(existsSync(join(ROOT, "dist/node_modules", name)));
  expect(sbomOf(ROOT)).toBe(text);
});
