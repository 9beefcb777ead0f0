/**
 * Writes `dist/types/<entry>.d.ts`: the declarations of each entry of package.json, gathered from
 * what tsc wrote, with the few types of effect that they reach. A user's compiler therefore reads
 * some forty files and needs neither effect nor `skipLibCheck`.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { rolldown } from "rolldown";
import { dts } from "rolldown-plugin-dts";
import { packageEntries } from "./bundle.ts";

/** What the declarations import and a user's install has. */
const EXTERNAL = [/^node:/, /^@modelcontextprotocol\//, "react", "zod"];

const EFFECT = /\/node_modules\/effect\/dist\/(.+)\.d\.ts$/;

export async function writeDeclarations(root: string): Promise<void> {
  const compiled = join(root, "dist/.declarations/services");
  const input = Object.fromEntries(
    packageEntries(root).map((name) => [name, join(compiled, `${name}/index.d.ts`)]),
  );
  const target = join(root, "dist/types");
  rmSync(target, { recursive: true, force: true });
  const bundle = await rolldown({
    input,
    external: EXTERNAL,
    preserveEntrySignatures: "allow-extension",
    checks: { pluginTimings: false },
    plugins: [{ name: "prepare", transform: prepare }, dts({ dtsInput: true, tsconfig: false })],
  });
  await bundle.write({
    dir: target,
    format: "es",
    chunkFileNames: "shared/[name].js",
    // effect has types named Date, Symbol and Array: in a scope of ours they would hide the
    // globals.
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [{ test: EFFECT, name: (id) => `effect/${EFFECT.exec(id)?.[1] ?? "effect"}.d` }],
    },
  });
  await bundle.close();
}

/**
 * What the bundler and older compilers need of a file's text.
 *
 * - tsc writes types that it inferred as `import("effect/Cause").YieldableError`, which the bundler
 *   does not follow: they become imports at the top of the file.
 * - The bundler loses the constants that computed keys name. No user of ours has them: the keys go.
 * - Typed arrays are generic since TypeScript 5.7, and `HeadersInit` is the DOM's.
 */
function prepare(text: string, file: string): string | undefined {
  if (!file.endsWith("ts")) return undefined;
  const heads = new Map<string, string>();
  const body = text
    .replace(
      /\bimport\("(effect\/(\w+))"\)\.(\w+)/g,
      (_all, from: string, module: string, name: string) => {
        const local = `${module}_${name}`;
        heads.set(local, `import type { ${name} as ${local} } from "${from}";\n`);
        return local;
      },
    )
    .replace(/^ *(?:readonly )?\[(?!Symbol\.)\w+\](?:\(|\??:).*;$/gm, "")
    .replace(/\b(Uint8Array|ArrayBufferView)<ArrayBuffer(?:Like)?>/g, "$1")
    .replace(/\bHeadersInit\b/g, "ConstructorParameters<typeof Headers>[0]");
  return [...heads.values()].join("") + body;
}
