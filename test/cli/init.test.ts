/** `init` writes a project whose server loads and whose own test passes, for each sender. */
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { init } from "../../services/cli/init/init.ts";
import { STARTER_NAMES } from "../../services/cli/init/starters.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";

const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));

let folder: TempFolder;
beforeEach(() => (folder = tempFolder("init")));
afterEach(() => folder.remove());

const terminal = () => ({
  out: () => undefined,
  err: () => undefined,
  interactive: false,
  env: {},
  cwd: folder.path,
});
const CHOICES = { webhooks: "github", page: true, strict: true } as const;

describe("init", () => {
  it.each(STARTER_NAMES)(
    "creates a project for %s that compiles under strict",
    (webhooks) => {
      init(terminal(), "app", { ...CHOICES, webhooks, page: webhooks !== "slack" });
      const app = join(folder.path, "app");
      // As npm install would do: this package, and the tools.
      mkdirSync(join(app, "node_modules"));
      symlinkSync(PACKAGE, join(app, "node_modules", "turnkeep"));
      for (const tool of ["vitest", "@types"])
        symlinkSync(join(PACKAGE, "node_modules", tool), join(app, "node_modules", tool));
      const tsc = join(PACKAGE, "node_modules/.bin/tsc");
      expect(execFileSync(tsc, ["-p", app], { encoding: "utf8" })).toBe("");
      expect(existsSync(join(app, "page.html"))).toBe(webhooks !== "slack");
    },
    120_000,
  );

  it("changes no existing file, and lists those it skipped", () => {
    writeFileSync(join(folder.path, "server.ts"), "mine");
    expect(() => init(terminal(), ".", CHOICES)).toThrow("server.ts exists already");
    expect(readFileSync(join(folder.path, "server.ts"), "utf8")).toBe("mine");
    expect(existsSync(join(folder.path, "package.json"))).toBe(false);
  });

  it("depends on this version, or on the requested one", () => {
    init(terminal(), "My App", { ...CHOICES, turnkeep: "file:../x.tgz" });
    const manifest = JSON.parse(readFileSync(join(folder.path, "My App/package.json"), "utf8")) as {
      name: string;
      dependencies: object;
    };
    expect(manifest.name).toBe("my-app");
    expect(manifest.dependencies).toEqual({ turnkeep: "file:../x.tgz" });
  });

  it("is run by npm create turnkeep, with its arguments and its exit code", () => {
    const create = join(folder.path, "node_modules/create-turnkeep");
    cpSync(join(PACKAGE, "package/create-turnkeep"), create, { recursive: true });
    symlinkSync(PACKAGE, join(folder.path, "node_modules/turnkeep"));
    const manifestOf = (path: string) =>
      JSON.parse(readFileSync(join(path, "package.json"), "utf8")) as {
        readonly version: string;
        readonly bin: Readonly<Record<string, string>>;
        readonly dependencies: Readonly<Record<string, string>>;
      };
    const { version, bin, dependencies } = manifestOf(create);
    const run = (...args: string[]) =>
      spawnSync(process.execPath, [join(create, bin["create-turnkeep"]!), ...args], {
        cwd: folder.path,
        encoding: "utf8",
      });
    expect(run("by-create", "--webhooks", "stripe")).toMatchObject({ status: 0, stderr: "" });
    init(terminal(), "by-init", { ...CHOICES, webhooks: "stripe" });
    const text = (app: string, file: string) =>
      readFileSync(join(folder.path, app, file), "utf8").replaceAll(app, "");
    for (const file of ["server.ts", "package.json", "page.html", "server.test.ts"])
      expect(text("by-create", file), file).toBe(text("by-init", file));
    const refused = run("by-create");
    expect([refused.status, refused.stderr]).toEqual([1, expect.stringContaining("exist already")]);
    expect([version, dependencies["turnkeep"]]).toEqual([
      manifestOf(PACKAGE).version,
      `^${manifestOf(PACKAGE).version}`,
    ]);
  });
});
