/** The bundle of an example for the reference's runtime, and which packages it lacks. */
import { builtinModules } from "node:module";
import { build, type BuildFailure } from "esbuild";

const BUILTIN = /^(?:node:)?[a-z_]+(?:\/[a-z]+)?$/;
/** A package's name in esbuild's text for an import that leads nowhere. */
const MISSING = /^Could not resolve "((?:@[\w.-]+\/)?\w[\w.-]*)(?:["/])/;

/** The packages that are imported by the module, or by what it imports, and are not installed. */
export async function missingPackages(module: string): Promise<ReadonlyArray<string>> {
  try {
    await bundleOf(module, "silent");
    return [];
  } catch (error) {
    const { errors = [] } = error as Partial<BuildFailure>;
    const names = errors.map(({ text }) => MISSING.exec(text)?.[1]);
    return [...new Set(names.filter((name) => name !== undefined))].toSorted();
  }
}

/** Rejects with esbuild's failure, which lists all imports that lead nowhere. */
export async function bundleOf(
  module: string,
  logLevel: "error" | "silent" = "error",
): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [module],
    bundle: true,
    write: false,
    format: "esm",
    target: "es2022",
    conditions: ["workerd", "worker", "browser"],
    loader: { ".svg": "dataurl", ".html": "text", ".txt": "text", ".wasm": "binary" },
    external: ["cloudflare:*"],
    tsconfigRaw: {},
    logLevel,
    plugins: [
      {
        name: "node",
        setup: (chain) => {
          chain.onResolve({ filter: BUILTIN }, ({ path, kind }) =>
            !builtinModules.includes(path.replace("node:", ""))
              ? undefined
              : kind === "require-call"
                ? { path, namespace: "required" }
                : { path: path.replace(/^(?:node:)?/, "node:"), external: true },
          );
          // workerd has no require.
          chain.onLoad({ filter: /./, namespace: "required" }, ({ path }) => ({
            contents: `import builtin from "${path}"; module.exports = builtin;`,
          }));
        },
      },
    ],
  });
  return outputFiles[0]!.text;
}
