/**
 * What an install of turnkeep has in it, for npm's own tools: `npm run sbom` writes
 * `dist/sbom.cdx.json` (part of `npm pack`), `npm run audit` asks the registry for advisories.
 *
 * Neither can look into the package: what `vendor` and `page` bring along are development
 * dependencies here, and files of turnkeep for a user's npm. So both run on a manifest and a lock
 * file that are written for them, in which those are dependencies like the others.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BUNDLED } from "./page.ts";
import { VENDORED } from "./vendor.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** Of a document with an entry for each package. */
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;

type Versions = Readonly<Record<string, string>>;

/** A package in a lock file. */
interface Locked {
  readonly version: string;
  readonly dev?: boolean;
  readonly devOptional?: boolean;
  readonly link?: boolean;
  readonly dependencies?: Versions;
  readonly optionalDependencies?: Versions;
  readonly peerDependencies?: Versions;
}
interface Lock {
  readonly packages: Readonly<Record<string, Locked>>;
}

/** Packages whose files are in the tarball. */
const broughtAlong: ReadonlyArray<string> = [...Object.keys(VENDORED), ...BUNDLED];

/** Writes `package.json` and `package-lock.json` of an install into a folder. */
function writeShipped(root: string, folder: string): void {
  const read = (name: string) => JSON.parse(readFileSync(join(root, name), "utf8")) as unknown;
  const {
    devDependencies: _,
    peerDependencies: __,
    scripts: ___,
    ...manifest
  } = read("package.json") as Record<string, Versions>;
  const lock = read("package-lock.json") as Lock;
  const own: Record<string, Locked> = {};
  for (const [path, locked] of Object.entries(lock.packages)) {
    const { dev, devOptional, link, ...kept } = locked;
    const name = path.replace(/^node_modules\//, "");
    // Of these only files are there that nothing of theirs needs a package for.
    if (broughtAlong.includes(name)) own[path] = withoutDependencies(kept);
    else if (path !== "" && (dev ?? devOptional ?? link) !== true) own[path] = kept;
  }
  const versions = broughtAlong.map((name) => [name, own[`node_modules/${name}`]!.version]);
  const dependencies = { ...manifest["dependencies"], ...Object.fromEntries(versions) };
  const shipped = { ...manifest, dependencies };
  const write = (name: string, content: unknown): void =>
    writeFileSync(join(folder, name), JSON.stringify(content, undefined, 2));
  write("package.json", shipped);
  write("package-lock.json", { ...lock, packages: { "": shipped, ...own } });
}

function withoutDependencies(locked: Locked): Locked {
  const { dependencies: _, optionalDependencies: __, peerDependencies: ___, ...kept } = locked;
  return kept;
}

function inShipped<A>(root: string, use: (folder: string) => A): A {
  const temp = mkdtempSync(join(tmpdir(), "shipped-"));
  // npm names the document after the folder.
  const folder = join(temp, "turnkeep");
  try {
    mkdirSync(folder);
    writeShipped(root, folder);
    return use(folder);
  } finally {
    rmSync(temp, { recursive: true });
  }
}

/** CycloneDX, without the time and number of this run: equal inputs give equal bytes. */
export function sbomOf(root: string): string {
  const args = ["sbom", "--package-lock-only", "--sbom-format", "cyclonedx", "--sbom-type", "library"]; // prettier-ignore
  const text = inShipped(root, (cwd) =>
    execFileSync("npm", args, { cwd, maxBuffer: OUTPUT_BYTES_MAX }).toString(),
  );
  const { serialNumber: _, metadata, ...sbom } = JSON.parse(text) as Record<string, object>;
  const { timestamp: __, ...told } = metadata as Record<string, unknown>;
  return JSON.stringify({ ...sbom, metadata: told }, undefined, 2) + "\n";
}

const [, script, command] = process.argv;
if (script === fileURLToPath(import.meta.url)) {
  if (command === "sbom") writeFileSync(join(ROOT, "dist/sbom.cdx.json"), sbomOf(ROOT));
  else
    process.exitCode = inShipped(
      ROOT,
      (cwd) => spawnSync("npm", ["audit", "--package-lock-only"], { cwd, stdio: "inherit" }).status,
    ) ?? 1; // prettier-ignore
}
