/** The plugin for Vite: what it compiles, and what it leaves alone. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import agents from "agents/vite";
import { tempFolder } from "../kit/tempFolder.ts";

const { transform } = agents();
const DECORATED = `
  function logged(method: () => number, context: ClassMethodDecoratorContext) {
    return function (this: A) { return method.call(this) + String(context.name).length; };
  }
  export class A { n: number = 1; @logged add(): number { return this.n; } }
`;

it("the plugin compiles standard decorators to what every supported Node runs", async () => {
  const { code, map } = (await transform(DECORATED, "/app/a.ts?v=1"))!;
  const { A } = (await import(`data:text/javascript,${encodeURIComponent(code)}`)) as {
    readonly A: new () => { readonly add: () => number };
  };
  expect(new A().add()).toBe(4);
  expect((JSON.parse(map) as { readonly sources: unknown }).sources).toEqual(["/app/a.ts"]);
});

it.each([
  ["a comment", "/** Sums. */@logged"],
  ["a comma", "static n = [1,@logged class {}];"],
])("the plugin sees a decorator after %s", async (_what, decorated) => {
  const code = `function logged(value: unknown): void {} export class A { ${decorated} add() {} }`;
  expect((await transform(code, "/app/a.ts"))?.code).not.toMatch(/@logged/);
});

it("the plugin ignores files without decorators, packages and other kinds of files", async () => {
  expect(await transform("export const a: number = 1;", "/app/a.ts")).toBeUndefined();
  expect(await transform(DECORATED, "/app/node_modules/x/a.ts")).toBeUndefined();
  expect(await transform("@media print {}", "/app/a.css")).toBeUndefined();
});

it("the plugin loads text as dev does, in code of a server", () => {
  const folder = tempFolder("vite-text");
  const file = join(folder.path, "schema.sql");
  writeFileSync(file, "CREATE TABLE `a`");
  const { load } = agents();
  expect(load(file, { ssr: true })).toBe('export default "CREATE TABLE `a`";');
  expect(load(file)).toBeUndefined();
  for (const other of [`${file}?raw`, file.replace(".sql", ".ts"), join(folder.path, "none.sql")])
    expect(load(other, { ssr: true })).toBeUndefined();
});

it("the plugin resolves the reference platform's module, and no other", async () => {
  const file = agents().resolveId("cloudflare:workers")!;
  expect(await import(file)).toHaveProperty("DurableObject");
  expect(agents().resolveId("./cloudflare:workers")).toBeUndefined();
});
