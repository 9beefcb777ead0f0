/**
 * `npm run types [-- <version>...]`: compiles the package's declarations, and the TypeScript of
 * README and docs, as users do: with the oldest TypeScript that is promised (`oldest`) and this
 * repository's own, under `strict` and without `skipLibCheck`, with the DOM's types and without. A
 * version that is not here comes from npm. Needs `npm run build`.
 */
import { execFile, execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { optionsWith, writeSnippets, type Snippet } from "../docs/snippets.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const CACHE = join(ROOT, "node_modules/.cache");
/** What `docs/internals/package.md` promises. */
const OLDEST = "5.6.3";
/** Entries, pages and snippets for browsers. */
const NEEDS_DOM = /client|react|frameworks|streams/;
const USES_CLIENT = /\bclient\./;

/** The compiler of a version; undefined: the repository's own. */
function compilerOf(version: string | undefined): string {
  if (version === undefined) return join(ROOT, "node_modules/typescript/bin/tsc");
  const folder = join(CACHE, `typescript-${version}`);
  const tsc = join(folder, "node_modules/typescript/bin/tsc");
  if (!existsSync(tsc)) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "package.json"), '{"private":true}');
    const quiet = ["--no-save", "--no-audit", "--no-fund", "--silent"];
    execFileSync("npm", ["install", ...quiet, `typescript@${version}`], { cwd: folder });
  }
  return tsc;
}

/** Resolves to what the compiler says. */
async function errorsOf(tsc: string, isDom: boolean): Promise<string> {
  const folder = join(CACHE, `types-${process.pid}-${isDom ? "dom" : "none"}`);
  mkdirSync(folder, { recursive: true });
  try {
    const isWanted = ({ page, text }: Snippet): boolean =>
      isDom || !(NEEDS_DOM.test(page) || USES_CLIENT.test(text));
    writeSnippets(ROOT, folder, optionsWith(isDom), isWanted);
    const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
      readonly exports: Readonly<Record<string, unknown>>;
    };
    const entries = Object.keys(manifest.exports)
      .filter((entry) => !String(manifest.exports[entry]).endsWith(".json"))
      .filter((entry) => isDom || !NEEDS_DOM.test(entry))
      .map((entry, n) => `export * as entry${n} from "turnkeep${entry.slice(1)}";\n`);
    writeFileSync(join(folder, "whole/entries.ts"), entries.join(""));
    const compiled = await Promise.all(
      ["whole", "fragments"].map((kind) =>
        promisify(execFile)(process.execPath, [tsc, "-p", join(folder, kind)]).then(
          () => "",
          ({ stdout }: { readonly stdout: string }) => stdout,
        ),
      ),
    );
    // What other packages' declarations say to an older compiler is theirs.
    const isOurs = (line: string): boolean =>
      line !== "" && !/^node_modules\/(?!\.cache)/.test(line);
    return compiled.join("\n").split("\n").filter(isOurs).join("\n"); // prettier-ignore
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const named = process.argv.slice(2).map((version) => (version === "oldest" ? OLDEST : version));
for (const version of named.length > 0 ? named : [OLDEST, undefined]) {
  const tsc = compilerOf(version);
  const found = await Promise.all([true, false].map((isDom) => errorsOf(tsc, isDom)));
  for (const [n, errors] of found.entries()) {
    const what = `TypeScript ${version ?? "of this repository"}, ${n === 0 ? "with" : "without"} the DOM`;
    console.log(`${what}: ${errors === "" ? "compiles" : `\n${errors}`}`);
    if (errors !== "") process.exitCode = 1;
  }
}
