/** Every TypeScript block of README and docs compiles, strictly, against users' declarations. */
import { execFile } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, expect, it } from "vitest";
import { optionsWith, snippetsOf, writeSnippets } from "./snippets.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** In the repository, so that imports find its packages. */
const FOLDER = join(ROOT, "node_modules/.cache", `snippets-${process.pid}`);
afterAll(() => rmSync(FOLDER, { recursive: true, force: true }));

it("the README's first block is a module that routes webhooks", () => {
  const [first] = snippetsOf(ROOT);
  expect(first).toMatchObject({ page: "README.md", extension: "ts" });
  expect(first?.text).toContain("webhooks: [");
});

it("every block compiles, whole modules with the imports that they show", async () => {
  mkdirSync(FOLDER, { recursive: true });
  expect(writeSnippets(ROOT, FOLDER, optionsWith(true, { skipLibCheck: true }))).toBeGreaterThan(
    20,
  );
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const errors = await Promise.all(
    ["whole", "fragments"].map((kind) =>
      promisify(execFile)(process.execPath, [tsc, "-p", join(FOLDER, kind)]).then(
        () => "",
        (error: { readonly stdout: string }) => error.stdout,
      ),
    ),
  );
  expect(errors.join("")).toBe("");
});
