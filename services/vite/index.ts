/**
 * The entry `turnkeep/vite`: a plugin for Vite and Vitest that compiles standard decorators, such
 * as `@callable()`, knows `cloudflare:workers`, `cloudflare:workflows` and `cloudflare:email`, and
 * loads text files in code of the server. `turnkeep dev` does so by itself; Vite 8 passes
 * decorators on, and Node refuses them.
 *
 * ```ts
 * // vitest.config.ts
 * import agents from "turnkeep/vite";
 * export default { plugins: [agents()] };
 * ```
 */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Loader } from "esbuild";
import { isTextFile, textModule } from "../module/textFile.ts";
import { platformFiles } from "../platform/platformFiles.ts";

/** The part of Vite's plugin type that this one uses, so that Vite's types are not needed. */
export interface AgentsPlugin {
  readonly name: string;
  readonly enforce: "pre";
  /** The file of this package that a module of the platform is; undefined for other specifiers. */
  readonly resolveId: (specifier: string) => string | undefined;
  /**
   * A text file as a module whose default export is the text, in tests and other code of a server;
   * undefined for any other file, and in a page, where Vite makes URLs of some.
   */
  readonly load: (
    id: string,
    options?: { readonly ssr?: boolean | undefined },
  ) => string | undefined;
  /** Compiles a file with decorators; leaves every other file alone. */
  readonly transform: (
    code: string,
    id: string,
  ) => Promise<{ readonly code: string; readonly map: string } | undefined>;
}

const FILE = /\.[cm]?([jt]sx?)$/;
/** A decorator, or something like one in a comment: that costs a moment, nothing else. */
const DECORATOR = /(?:^|[\s;{}(),/])@[\w$(]/;

/** Files in `node_modules` and files without decorators are left alone. */
export default function agents(): AgentsPlugin {
  const platform = platformFiles();
  return {
    name: "turnkeep",
    enforce: "pre",
    resolveId: (specifier) => {
      const file = platform.get(specifier);
      return file && fileURLToPath(file);
    },
    load: (id, { ssr = false } = {}) =>
      ssr && isTextFile(id) && !id.includes("/node_modules/") && existsSync(id)
        ? textModule(readFileSync(id, "utf8"))
        : undefined,
    transform: async (code, id) => {
      const file = id.split("?")[0] ?? id;
      const loader = FILE.exec(file)?.[1];
      if (loader === undefined || file.includes("/node_modules/") || !DECORATOR.test(code))
        return undefined;
      const { transform } = await import("esbuild");
      return transform(code, {
        loader: loader as Loader,
        sourcefile: file,
        sourcemap: true,
        target: "es2022",
        jsx: "preserve",
        tsconfigRaw: { compilerOptions: { useDefineForClassFields: true } },
      });
    },
  };
}
