/**
 * The declarations that an app's compiler reads through the package's entries. They name what users
 * use, and nothing of the runtime behind it. Needs `npm run build`.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

/** What tsc wrote. */
const COMPILED = fileURLToPath(new URL("../../dist/.declarations", import.meta.url));

/** The files that users' code leads to, each with the file that imports it first. */
function reachedFrom(entry: string): Map<string, string> {
  const reached = new Map([[entry, ""]]);
  for (const file of reached.keys())
    for (const [, path] of readFileSync(join(COMPILED, file), "utf8").matchAll(
      /(?:from |import\()"(\.[^"]+)\.(?:ts|js)"/g,
    )) {
      const next = relative(COMPILED, join(COMPILED, dirname(file), `${path}.d.ts`));
      if (existsSync(join(COMPILED, next)) && !reached.has(next)) reached.set(next, file);
    }
  return reached;
}

const RUNTIME =
  /core\/runtime\/|core\/agent\/Agent(?:Runtime|Apis)|core\/turn\/(?:Turn|AgentTurns|Committer)\./;

it.each(["agent", "webhooks", "workflows", "email", "observability"])(
  "the types of the entry %s do not lead to the runtime",
  (entry) => {
    const reached = reachedFrom(`services/${entry}/index.d.ts`);
    const runtime = [...reached].filter(([file]) => RUNTIME.test(file));
    expect(runtime.map(([file, importer]) => `${importer} imports ${file}`)).toEqual([]);
    expect(reached.size).toBeGreaterThan(1);
  },
);
