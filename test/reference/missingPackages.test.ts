import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { tempFolder } from "../kit/tempFolder.ts";
import { missingPackages } from "./drive/bundle.ts";

const folder = tempFolder("missing-packages");
afterAll(() => folder.remove());

test("names every package that an example or a package of its own imports, and nothing else", async () => {
  const at = (path: string): string => join(folder.path, path);
  mkdirSync(at("node_modules/here"), { recursive: true });
  writeFileSync(at("node_modules/here/package.json"), JSON.stringify({ name: "here" }));
  writeFileSync(at("node_modules/here/index.js"), 'export { deep } from "absent-below/deep.js";');
  writeFileSync(
    at("server.ts"),
    `import { DurableObject } from "cloudflare:workers";
    import { readFileSync } from "node:fs";
    import { deep } from "here";
    import { one } from "@scope/absent/sub";
    import two from "absent.two";
    import skills from "agents:skills";
    import gone from "./gone.ts";
    export default [DurableObject, readFileSync, deep, one, two, skills, gone];`,
  );
  expect(await missingPackages(at("server.ts"))).toEqual([
    "@scope/absent",
    "absent-below",
    "absent.two",
  ]);
  writeFileSync(at("server.ts"), 'import { sep } from "path"; export default sep;');
  expect(await missingPackages(at("server.ts"))).toEqual([]);
});
