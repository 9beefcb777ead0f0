/** What `npm run build` makes of dist, and what package.json promises about an install. */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { tempFolder } from "../kit/tempFolder.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const json = (path: string) => JSON.parse(readFileSync(ROOT + path, "utf8")) as Manifest;

interface Manifest {
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly exports?: Readonly<Record<string, { readonly types?: string }>>;
  readonly packages?: Readonly<
    Record<string, { readonly dev?: boolean; readonly hasInstallScript?: boolean }>
  >;
}

it("the esbuild binaries that a user's install may choose are those of its own version", () => {
  const { optionalDependencies } = json("package.json");
  expect(optionalDependencies).toEqual(
    json("node_modules/esbuild/package.json").optionalDependencies,
  );
  expect(json("dist/node_modules/esbuild/package.json").version).toBe(
    optionalDependencies!["@esbuild/linux-x64"],
  );
});

it("no package of a user's install has an install script", () => {
  const installed = Object.entries(json("package-lock.json").packages!).filter(([, at]) => !at.dev);
  expect(installed.length).toBeGreaterThan(20);
  expect(installed.filter(([, at]) => at.hasInstallScript).map(([path]) => path)).toEqual([]);
});

it("every entry has declarations, which import only what a user's install has", () => {
  const { exports, dependencies, peerDependencies } = json("package.json");
  for (const [entry, target] of Object.entries(exports!))
    if (target.types !== undefined) expect(existsSync(ROOT + target.types), entry).toBe(true);
  const known = new Set([...Object.keys(dependencies!), ...Object.keys(peerDependencies!)]);
  const packageOf = (name: string): string => /^(?:@[^/]+\/)?[^/]+/.exec(name)![0];
  const unknown = readdirSync(`${ROOT}dist/types`, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".d.ts"))
    .flatMap((path) => {
      const text = readFileSync(`${ROOT}dist/types/${path}`, "utf8").replace(/\/\*[^]*?\*\//g, "");
      return [...text.matchAll(/\b(?:from|import\()\s*["']([^."'][^"']*)["']/g)].map((m) => m[1]!);
    })
    .filter(
      (name) => !known.has(packageOf(name)) && !builtinModules.includes(name.replace("node:", "")),
    );
  expect(unknown).toEqual([]);
});

it("a command reads few files, whether it runs a module or not", () => {
  const read = (...args: string[]): string[] => {
    const folder = tempFolder("coverage");
    try {
      const env = { ...process.env, NODE_V8_COVERAGE: folder.path };
      execFileSync(process.execPath, [`${ROOT}dist/services/cli/main.js`, ...args], { env });
      return readdirSync(folder.path).flatMap((file) => {
        const text = readFileSync(`${folder.path}/${file}`, "utf8");
        const { result } = JSON.parse(text) as { result: { readonly url: string }[] };
        return result.map(({ url }) => url).filter((url) => url.startsWith("file:"));
      });
    } finally {
      folder.remove();
    }
  };
  for (const command of ["state", "dev"]) {
    const files = read(command, "--help");
    expect(files.filter((url) => url.includes("/dist/chunks/")).length).toBeGreaterThan(1);
    // One for each set of commands that shares code; not the hundreds that it is made of.
    expect(files.length).toBeLessThan(100);
  }
});

it("an entry shares its classes with the command line, and those for pages need nothing of Node", () => {
  const chunksOf = (path: string): string[] =>
    [...readFileSync(`${ROOT}dist/${path}`, "utf8").matchAll(/"(?:[./]+chunks|\.)\/([\w-]+\.js)"/g)].map((m) => m[1]!); // prettier-ignore
  const entries = ["agent", "testing", "mcpAgent"].map((name) => `services/${name}/index.js`);
  const reached = (path: string, seen = new Set<string>()): Set<string> => {
    for (const chunk of chunksOf(path)) {
      if (seen.has(chunk)) continue;
      seen.add(chunk);
      reached(`chunks/${chunk}`, seen);
    }
    return seen;
  };
  const holder = [...reached("services/agent/index.js")].filter((chunk) =>
    /^var Agent = class|^class Agent /m.test(readFileSync(`${ROOT}dist/chunks/${chunk}`, "utf8")),
  );
  expect(holder).toHaveLength(1);
  for (const entry of [...entries, "services/cli/main.js"])
    expect([...reached(entry)], entry).toContain(holder[0]);
  for (const page of ["client", "react"])
    for (const file of [`services/${page}/index.js`, ...[...reached(`services/${page}/index.js`)].map((chunk) => `chunks/${chunk}`)]) // prettier-ignore
      expect(readFileSync(`${ROOT}dist/${file}`, "utf8"), file).not.toMatch(/from "node:|createRequire/); // prettier-ignore
});
