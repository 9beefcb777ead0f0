import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { loadEnv, parseEnvText } from "../../services/env/loadEnv.ts";
import { tempFolder } from "../kit/tempFolder.ts";

describe("the text of a .env file", () => {
  const cases: ReadonlyArray<readonly [rule: string, text: string, env: Record<string, string>]> = [
    ["a line is a name and a value", "A=1\nB_2 = two words \n", { A: "1", B_2: "two words" }],
    ["export is allowed", "export A=1\n  export B=2", { A: "1", B: "2" }],
    ["comments stand alone or after a blank", "# x\n  # y\nA=1 # z\nB=a#b", { A: "1", B: "a#b" }],
    ["an empty value is empty", "A=\nB= # none\nC=x", { A: "", B: "", C: "x" }],
    ["quotes keep blanks and hashes", `A=" x # y "\nB='q #r' # c\nC=\`it's\``, { A: " x # y ", B: "q #r", C: "it's" }],
    ["quotes may span lines", 'A="one\ntwo"\nB=3', { A: "one\ntwo", B: "3" }],
    ["double quotes have escapes, single ones none", `A="a\\nb\\"c\\\\"\nB='a\\nb'`, { A: 'a\nb"c\\', B: "a\\nb" }],
    ["an unclosed quote is text", `A="abc\nB=2`, { A: '"abc', B: "2" }],
    ["a value may hold equals signs", "A=b=c==", { A: "b=c==" }],
    ["Windows line ends and a byte order mark are no part of it", "\uFEFFA=1\r\nB=2\r\n", { A: "1", B: "2" }],
    ["other lines are ignored", "hello\n=x\n1A=2\nA=1", { A: "1" }],
  ]; // prettier-ignore
  it.each(cases)("%s", (_rule, text, env) => {
    expect(parseEnvText(text)).toEqual(env);
  });
});

describe("the environment of a module", () => {
  let folder: string;
  const put = (path: string, text: string): void => writeFileSync(join(folder, path), text);
  beforeEach(() => {
    folder = tempFolder("env").path;
    mkdirSync(join(folder, "app"));
  });
  const load = (processEnv: Record<string, string> = {}) =>
    loadEnv({ cwd: folder, module: "app/server.ts", processEnv });

  it("the process wins over .env.local, which wins over .env, and the module's folder over the working folder", () => {
    put(".env", "A=cwd\nB=cwd\nC=cwd\nD=cwd\nE=cwd");
    put(".env.local", "B=cwd.local");
    put("app/.env", "C=app\nD=app\nE=app");
    put("app/.env.local", "D=app.local\nE=app.local");
    const { env, files } = load({ E: "process" });
    expect(env).toEqual({ A: "cwd", B: "cwd.local", C: "app", D: "app.local", E: "process" });
    expect(files).toEqual(
      [".env", ".env.local", "app/.env", "app/.env.local"].map((f) => join(folder, f)),
    );
  });

  it("no file is required", () => {
    expect(load({ A: "1" })).toEqual({ env: { A: "1" }, files: [], ignored: [] });
  });

  it("lines that set nothing are named, but no empty ones, comments or lines of a quoted value", () => {
    put(".env", '\uFEFFSECRET: abc\r\n\r\n# x\r\nA="one\r\ntwo"\r\n1NAME=1\r\n  # y\r\nB=2\r\n');
    put("app/.env", "A=1\nhello");
    const { env, ignored } = load();
    expect(env).toEqual({ A: "1", B: "2" });
    const [outer, inner] = [join(folder, ".env"), join(folder, "app/.env")];
    expect(ignored).toEqual([
      { file: outer, line: 1 },
      { file: outer, line: 6 },
      { file: inner, line: 2 },
    ]);
  });

  it("a file that can't be read is an error that names it", () => {
    mkdirSync(join(folder, ".env"));
    expect(() => load()).toThrowError(/\.env can't be read \(EISDIR\)/);
  });
});
