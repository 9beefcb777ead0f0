/** `init` writes a project whose server loads and whose own test passes, for each sender. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
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
    "a project for %s compiles under strict",
    (webhooks) => {
      init(terminal(), "app", { ...CHOICES, webhooks, page: webhooks !== "slack" });
      const app = join(folder.path, "app");
      // What npm install would make: this package, and the tools beside it.
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

  it("changes no file that exists, and says which", () => {
    writeFileSync(join(folder.path, "server.ts"), "mine");
    expect(() => init(terminal(), ".", CHOICES)).toThrow("server.ts exists already");
    expect(readFileSync(join(folder.path, "server.ts"), "utf8")).toBe("mine");
    expect(existsSync(join(folder.path, "package.json"))).toBe(false);
  });

  it("depends on this version, or on what was asked for", () => {
    init(terminal(), "My App", { ...CHOICES, turnkeep: "file:../x.tgz" });
    const manifest = JSON.parse(readFileSync(join(folder.path, "My App/package.json"), "utf8")) as {
      name: string;
      dependencies: object;
    };
    expect(manifest.name).toBe("my-app");
    expect(manifest.dependencies).toEqual({ turnkeep: "file:../x.tgz" });
  });
});
