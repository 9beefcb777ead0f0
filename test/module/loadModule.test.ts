import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { LoaderProcess } from "./LoaderProcess.ts";
import { tempFolder } from "../kit/tempFolder.ts";

let folder: string;
const at = (path: string): string => join(folder, path);
function put(path: string, text: string): string {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), text);
  return at(path);
}
beforeEach(() => {
  folder = tempFolder("module").path;
});

const COUNTER = `
  import { Agent } from "agents";
  import { step } from "./lib/step";
  function logged(method: () => number, context: ClassMethodDecoratorContext) {
    return function (this: Counter) { return method.call(this) * 10 + String(context.name).length; };
  }
  enum Kind { Small = 4 }
  export class Counter extends Agent<unknown, { n: number }> {
    static report() { return [step as number, this.prototype.add()]; }
    @logged add(): number { return Kind.Small; }
  }
  export default { async fetch(request: Request) { return new Response("x"); } };
`;

describe.each(["source", "dist"] as const)("loading a module, run from %s", (mode) => {
  let loader: LoaderProcess;
  beforeAll(() => {
    loader = new LoaderProcess(mode);
  });
  afterAll(() => loader.stop());

  it("lets a lone TypeScript file import agents without node_modules, with enums and standard decorators", async () => {
    const file = put("server.ts", COUNTER);
    const step = put("lib/step.ts", "export const step: number = 7;");
    expect(await loader.load(file)).toEqual({
      agents: ["Counter"],
      webhooks: [],
      handlers: ["fetch"],
      files: [file, step],
      value: [7, 43],
    });
  });

  it("imports a text file as its text, and watches it, and a configuration file beside it, too", async () => {
    const config = put("wrangler.jsonc", '{ "durable_objects": { "bindings": [] } }');
    const page = put("page.html", "<p>`${1}</p>");
    const file = put(
      "server.ts",
      `import { Agent } from "agents"; import page from "./page.html";
       export class Counter extends Agent { static report() { return page; } }`,
    );
    const { files, value } = await loader.load(file);
    rmSync(config);
    expect(value).toBe("<p>`${1}</p>");
    expect(files).toEqual([file, page, config]);
  });

  it("says which bindings of its configuration file name a class that it does not export", async () => {
    const bindings = [
      { name: "COUNTER", class_name: "Counter" },
      { name: "OTHER", class_name: "Countr" },
      { name: "FAR", class_name: "Elsewhere", script_name: "another-worker" },
    ];
    put("wrangler.jsonc", JSON.stringify({ durable_objects: { bindings } }));
    put("lib/step.ts", "export const step = 1;");
    expect((await loader.load(put("server.ts", COUNTER))).notes).toEqual([
      'the binding OTHER names the class "Countr", which the module does not export. Did you mean "Counter"?',
      'the binding FAR names the class "Elsewhere", which the module does not export',
    ]);
  });

  it.each(["module", "commonjs"])("accepts a package.json beside it that says %s", async (type) => {
    put("package.json", JSON.stringify({ name: "app", type }));
    put("lib/step.ts", "export const step: number = 8;");
    expect((await loader.load(put("server.ts", COUNTER))).value).toEqual([8, 43]);
  });

  it("gives it fresh code when loaded again, and its imports too", async () => {
    const file = put("server.ts", COUNTER);
    put("lib/step.ts", "export const step = 1;");
    expect((await loader.load(file)).value).toEqual([1, 43]);
    put("lib/step.ts", "export const step = 2;");
    expect((await loader.load(file)).value).toEqual([2, 43]);
    put("server.ts", COUNTER.replace("Small = 4", "Small = 5"));
    expect((await loader.load(file)).value).toEqual([2, 53]);
  });

  it("ignores a copy of agents in the module's node_modules: a process has one Agent", async () => {
    put("node_modules/agents/package.json", `{"name":"agents","exports":"./index.js"}`);
    put("node_modules/agents/index.js", `throw new Error("the wrong copy")`);
    put("lib/step.ts", "export const step = 1;");
    expect((await loader.load(put("server.ts", COUNTER))).error).toBeUndefined();
  });

  it("finds packages in its node_modules and loads them once", async () => {
    put("node_modules/dep/package.json", `{"name":"dep","main":"./index.js"}`);
    put(
      "node_modules/dep/index.js",
      `module.exports = { n: (globalThis.depLoads = (globalThis.depLoads ?? 0) + 1) };`,
    );
    const file = put(
      "server.mjs",
      `
      import { Agent } from "agents";
      import dep from "dep";
      export class Uses extends Agent { static report() { return dep.n; } }
    `,
    );
    const first = await loader.load(file);
    expect(first).toMatchObject({ value: 1, files: [file] });
    expect((await loader.load(file)).value).toBe(1);
  });

  it("reports file and line of a syntax error, and the files to watch until then", async () => {
    const file = put("server.ts", `import "./lib/bad.ts";\n`);
    const bad = put("lib/bad.ts", "export const a = 1;\nexport const b: = 2;\n");
    const { error, files } = await loader.load(file);
    expect(error).toMatchObject({ name: "ModuleError" });
    expect(error!.message).toContain(`${bad}:2:`);
    expect(files).toEqual([file, bad]);
    const script = put("server.js", "const a = 1;\nconst b = ;\n");
    expect((await loader.load(script)).error!.message).toContain(`${script}:2:`);
  });

  it("reports where an error occurred while it ran", async () => {
    const file = put("server.ts", `const x: number = 1;\n\nthrow new RangeError("boom " + x);\n`);
    const { error } = await loader.load(file);
    expect(error!.message).toMatch(/failed while loading\n {2}RangeError: boom 1\n/);
    expect(error!.message).toContain(`${file}:3:`);
    expect(error!.message).not.toContain("agents-load");
  });

  it("says of an import that no package can be where aliases are read from", async () => {
    const file = put("server.ts", `import { a } from "@/a";\nexport const b = a;\n`);
    expect((await loader.load(file)).error!.message).toContain(`"paths" of the tsconfig.json`);
  });

  it("says what to write in the place of what only CommonJS has", async () => {
    const refused = async (name: string, text: string): Promise<string> =>
      (await loader.load(put(name, text))).error!.message;
    const main = await refused(
      "server.cjs",
      `const a = 1;\nconst { Agent } = require("agents");\n`,
    );
    expect(main).toMatch(/require is not defined: modules are ES modules .*Write `import … from/);
    expect(main).toContain(`${at("server.cjs")}:2:`);
    expect(await refused("server.ts", "console.log(__dirname);")).toContain("import.meta.dirname");
    const named = `import { a } from "./lib.js";\nexport const b = a;\n`;
    put("lib.js", "exports.a = 1;");
    const lacks = await refused("names.ts", named);
    expect(lacks).toContain("names.ts:1");
    expect(lacks).not.toMatch(/node:internal|loadModule/);
  });

  it("reports what a missing import was and in which file, and watches for it", async () => {
    const file = put("server.ts", `import "./gone.ts";`);
    const { error, files } = await loader.load(file);
    expect(error!.message).toContain(`Cannot find module '${at("gone.ts")}' imported from ${file}`);
    expect(files).toEqual([file, at("gone.ts")]);
    const other = put("other.ts", `import "not-installed";`);
    expect((await loader.load(other)).error!.message).toMatch(/not-installed.*npm install/);
  });

  it("is an error that names the path if it has no file", async () => {
    expect((await loader.load(at("nope.ts"))).error!.message).toBe(
      `${at("nope.ts")}: no such file. Use the path of the module that exports your agents`,
    );
    expect((await loader.load(folder)).error!.message).toContain("is a folder");
  });
});

describe("the tsconfig.json of a module", () => {
  /** A process reads one. */
  const loaded = async (file: string) => {
    const loader = new LoaderProcess("dist");
    return loader.load(file).finally(() => loader.stop());
  };
  const counter = (from: string): string =>
    `import { Agent } from "agents"; import a from "${from}"; enum Kind { Big = 3 }
     export class Counter extends Agent { static report() { return [a, Kind.Big]; } }`;

  it("is that of the nearest folder", async () => {
    put("app/tsconfig.json", `{ "compilerOptions": { "paths": { "@/*": ["./lib/*"] } } }`);
    put("app/lib/a.ts", "export default 7;");
    const { value, error } = await loaded(put("app/src/server.ts", counter("@/a")));
    expect([value, error]).toEqual([[7, 3], undefined]);
  });

  it("may extend what is not installed", async () => {
    put("tsconfig.json", `{ "extends": "@tsconfig/absent" }`);
    put("a.json", "7");
    const { value, error } = await loaded(put("server.ts", counter("./a.json")));
    expect([value, error]).toEqual([[7, 3], undefined]);
  });
});
