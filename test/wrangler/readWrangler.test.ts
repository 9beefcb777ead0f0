import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { readWrangler } from "../../services/wrangler/readWrangler.ts";
import { tempFolder } from "../kit/tempFolder.ts";

let folder: string;
const write = (path: string, text: string): void => {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
};
beforeEach(() => {
  folder = tempFolder("wrangler").path;
});

describe("the configuration file beside a module", () => {
  it("configures the module, variables, bindings and files; comments and trailing commas are allowed", () => {
    write(
      "wrangler.jsonc",
      `{ // a comment
        "main": "src/server.ts",
        "vars": { "MODE": "test", "LIMITS": { "a": 1 } },
        "durable_objects": { "bindings": [{ "name": "PAY", "class_name": "PayAgent" }] },
        "workflows": [{ "name": "t", "binding": "TASK_WORKFLOW", "class_name": "TaskWorkflow" }],
        "send_email": [{ "name": "MAILER" }],
        "assets": { "directory": "public", "binding": "ASSETS",
          "not_found_handling": "single-page-application", "run_worker_first": ["/agents/*"] },
      }`,
    );
    mkdirSync(join(folder, "src"));
    expect(readWrangler(join(folder, "src"))).toEqual({
      file: join(folder, "wrangler.jsonc"),
      main: join(folder, "src/server.ts"),
      vars: { MODE: "test", LIMITS: { a: 1 } },
      bindings: new Map([
        ["PAY", "PayAgent"],
        ["TASK_WORKFLOW", "TaskWorkflow"],
      ]),
      objects: ["PayAgent"],
      mailBindings: ["MAILER"],
      loaders: [],
      assets: {
        directory: join(folder, "public"),
        binding: "ASSETS",
        singlePage: true,
        moduleFirst: ["/agents/*"],
      },
      notes: [],
    });
  });

  it("may be TOML, too", () => {
    write(
      "wrangler.toml",
      'main = "server.ts"\n[vars]\nMODE = "test"\n[[durable_objects.bindings]]\nname = "A"\nclass_name = "B"\n',
    );
    expect(readWrangler(folder)).toMatchObject({
      main: join(folder, "server.ts"),
      vars: { MODE: "test" },
      bindings: new Map([["A", "B"]]),
    });
  });

  it("is not searched for above the package's folder", () => {
    write("wrangler.jsonc", "{}");
    write("app/package.json", "{}");
    expect(readWrangler(join(folder, "app"))).toBeUndefined();
  });

  it("reports what is not supported, and the alternative", () => {
    write(
      "wrangler.json",
      '{ "kv_namespaces": [], "triggers": { "crons": ["0 9 * * *"] }, "assets": {}, "env": {}, "worker_loaders": [{ "binding": "LOADER" }] }',
    );
    const { notes, loaders } = readWrangler(folder)!;
    expect(loaders).toEqual(["LOADER"]);
    expect(notes).toEqual([
      expect.stringMatching(/^"kv_namespaces" is not available here: use .*this\.sql/),
      expect.stringMatching(/^"triggers" is not available here: use this\.schedule\(\)/),
      expect.stringMatching(/^"worker_loaders" is not available here: .*a container/),
      expect.stringMatching(/^"assets" has no directory.*build the page/),
      expect.stringMatching(/^"env" is ignored/),
    ]);
  });

  it("reports files of the static files that are not applied", () => {
    write("wrangler.json", '{ "assets": { "directory": "public" } }');
    write("public/_headers", "/*\n  x-frame-options: DENY");
    write("public/_redirects", "/a /b 301");
    expect(readWrangler(folder)!.notes).toEqual([
      expect.stringMatching(/^"_headers" of the static files is not applied: set headers in/),
      expect.stringMatching(
        /^"_redirects" of the static files is not applied: .*Response\.redirect/,
      ),
    ]);
  });

  it.each([
    ["wrangler.jsonc", '{\n  "main": }', /wrangler\.jsonc can't be read: ValueExpected in line 2/],
    ["wrangler.json", "[]", /holds no object/],
    ["wrangler.toml", "main = ", /wrangler\.toml can't be read/],
  ])("reports where a %s can't be parsed", (name, text, message) => {
    write(name, text);
    expect(() => readWrangler(folder)).toThrow(message);
  });

  it("ignores values of unexpected types", () => {
    write(
      "wrangler.json",
      '{ "main": 1, "vars": [], "durable_objects": { "bindings": [1, { "name": 2 }] }, "workflows": {} }',
    );
    expect(readWrangler(folder)).toMatchObject({ vars: {}, bindings: new Map() });
  });
});
