/** The house style, as far as a program can check it: `tidy/rules.ts`, `tidy/folders.ts`. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import type { Repository } from "./tidy/citations.ts";
import { STARTED } from "../package/bundle.ts";
import { RULES, type Rule } from "./tidy/rules.ts";
import { sourceFile, type SourceFile } from "./tidy/SourceFile.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SOURCE = /^(?:(?:schemas|core|services|package|test|examples)\/.*|[^/]+)\.tsx?$/;

const TEXT = /\.(?:md|conf|ya?ml|env|service)$/;
const read = (path: string): string => readFileSync(ROOT + path, "utf8");

/** Files that git has or would add; no build output, no `node_modules`. */
function tracked(): ReadonlyArray<string> {
  const options = { cwd: ROOT, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 } as const;
  return execFileSync("git", ["ls-files", "-co", "--exclude-standard"], options)
    .split("\n")
    .filter((path) => path !== "" && existsSync(ROOT + path));
}

/** The sources of what package.json exports, and of what starts by its path. */
function entryPoints(): ReadonlySet<string> {
  const manifest = read("package.json");
  const sources = [...manifest.matchAll(/"\.\/((?:dist\/)?services\/[^"]+\.(?:ts|js))"/g)].map(
    (match) => match[1]!.replace(/^dist\//, "").replace(/\.js$/, ".ts"),
  );
  // `package/page` bundles the console's page.
  const page = "services/consolePage/main.tsx";
  return new Set([...sources, ...STARTED.map((path) => `${path}.ts`), page]);
}

const show = (
  rule: Rule,
  files: ReadonlyArray<SourceFile>,
  entries: ReadonlySet<string>,
  repository: Repository,
) =>
  rule
    .check(files, entries, repository)
    .map(({ path, line, message }) => `${path}:${line} ${message}`);

describe("the sources keep the house style", () => {
  const paths = tracked();
  const files = paths
    .filter((path) => SOURCE.test(path))
    .map((path) => sourceFile(path, read(path)));
  const texts = paths.filter((path) => TEXT.test(path)).map((path) => ({ path, text: read(path) }));
  const repository: Repository = { paths: new Set(paths), texts };
  const entries = entryPoints();
  it("there are sources to check", () => {
    expect(files.map(({ path }) => path)).toContain("test/tidy.test.ts");
    expect(entries).toContain("services/cli/main.ts");
  });
  it.each(RULES.map((rule) => [rule.name, rule] as const))("%s", (_name, rule) => {
    expect(show(rule, files, entries, repository)).toEqual([]);
  });
});

const HEADER = "/**\n * What it owns, what it\n * leaves to whom.\n */\n";
/** Words that this file itself must not hold. */
const later = ["TO", "DO"].join("");
const ignoreError = ["@ts", "ignore"].join("-");
const alone = ["it", "only"].join(".");

const PLANTED_REPOSITORY: Repository = {
  paths: new Set(["core/b/B.ts", "docs/reference/protocol.md", "docs/guides/x.md"]),
  texts: [
    { path: "docs/reference/protocol.md", text: "# The protocol\n\n## 2. Frames\n\n### 2.1 From\n" },
    { path: "docs/guides/x.md", text: "# X y: `z`\n\n[a](../reference/protocol.md#2-frames) [b](#x-y-z)" },
    { path: "docs/evidence/reliability.md", text: "| I1  | one |\n| I12 | two |\n" },
  ],
}; // prettier-ignore

/** Rule name's beginning, the planted file, and what the finding must say. */
const PLANTED: ReadonlyArray<readonly [rule: string, path: string, text: string, says: RegExp]> = [
  ["layers", "schemas/A.ts", 'import { x } from "../core/x.ts";', /^schemas\/A\.ts:1 .*must not know core/],
  ["layers", "core/a/A.ts", 'import {\n  x,\n} from "node:fs";', /^core\/a\/A\.ts:3 .*behind a port/],
  ["layers", "core/a/A.ts", 'const x = await import("../../services/nats/x.ts");', /must not know services/],
  ["layers", "core/a/A.ts", 'export * from "ws";', /effect and nothing else/],
  ["layers", "services/nats/A.ts", 'import { x } from "../host/x.ts";', /adapters don't know them/],
  ["layers", "services/host/A.ts", 'import { x } from "../nats/x.ts";', /ports only.*main\.ts/],
  ["layers", "services/host/A.ts", 'import { x } from "../gateway/x.ts";', /share it through core/],
  ["layers", "services/agent/index.ts", 'import { x } from "../sqlite/x.ts";', /take the port/],
  ["layers", "services/client/A.ts", 'import { x } from "../../core/x.ts";', /schemas only/],
  ["layers", "services/cli/A.ts", 'import { x } from "../../test/kit/x.ts";', /nothing imports test/],
  ["layers", "services/newThing/A.ts", "", /services\/newThing is unknown.*folders\.ts/],
  ["layers", "examples/x/server.ts", 'import { Agent } from "../../core/agent/Agent.ts";', /as a user does/],
  ["no file or folder imports", "core/a/A.ts", 'import type { A } from "./A.ts";', /A\.ts:1 core\/a\/A\.ts → core\/a\/A\.ts: declare/],
  ["no file or folder is", "core/utils/A.ts", "", /name it after/],
  ["no file or folder is", "services/nats/types.ts", "", /name it after/],
  ["no file is longer", "core/a/A.ts", "x;\n".repeat(401), /^core\/a\/A\.ts:400 401 lines: split/],
  ["tests lie", "test/later/a.test.ts", "", /test\/later is no folder of the sources.*folders\.ts/],
  ["comments end", "core/a/A.ts", `x;\n/** ${"word ".repeat(20)}*/`, /:2 106 columns: wrap/],
  ["a comment begins", "core/a/A.ts", "/** Of the gateway. */\nurl;", /begin with what it is of/],
  ["a class has", "core/a/A.ts", "class A {\n  #x = 1;\n  private y = 2;\n}", /:3 `private` beside/],
  ["every file opens", "core/a/A.ts", "export const a = 1;", /A\.ts:1 no header/],
  ["every file opens", "core/a/A.ts", `/** A. */\n${"x;\n".repeat(90)}`, /a header of 1 lines/],
  ["every file opens", "core/a/A.ts", `/**${"\n * x".repeat(14)}\n */`, /a header of 16 lines/],
  ["each numeric", "core/a/A.ts", `${HEADER}\nconst WAIT_MS = 5_000;`, /:6 const WAIT_MS.*why this number/],
  ["each numeric", "core/a/A.ts", "const ONE = 5;", /:1 const ONE = 5/],
  ["each numeric", "core/a/A.ts", "const ONE = 1;\nconst TWO_MS = 2;", /:1 const ONE[^]*:2 const TWO_MS/],
  ["time,", "core/a/A.ts", "const a = 1;\nsetTimeout(f, 1);", /:2 "setTimeout": take it from/],
  ["time,", "services/host/A.ts", "const now = `${Date.now()}`;", /"Date\.now"/],
  ["time,", "services/cli/A.ts", "new Date( ); crypto.randomUUID(); Math.random();", /"new Date\( \)"[^]*randomUUID[^]*Math\.random/],
  ["nothing is left", "services/nats/A.ts", `x;\n// ${later}: later`, /:2 .*file it as an issue/],
  ["no value", "core/a/A.ts", "const a: any = 1;", /use unknown/],
  ["no value", "test/a.test.ts", "f(x as any); const y: Array<any> = [];", /use unknown[^]*use unknown/],
  ["no value", "core/a/A.ts", `// ${ignoreError}\nx();`, /with the reason/],
  ["no test", "test/a.test.ts", `${alone}("x", () => {});`, /make it run/],
  ["every file is used", "core/a/A.ts", 'import "./A.ts";', /nothing imports it/],
  ["every export", "core/a/A.ts", "x;\nexport interface B {}", /A\.ts:2 no other file imports B/],
  ["nothing is cited", "core/a/A.ts", "\n// See `core/c/B.ts`.", /:2 core\/c\/B\.ts is not there: is it core\/b\/B\.ts\?/],
  ["nothing is cited", "core/a/A.ts", '// A["core/b/Gone<br/>what it does"]', /:1 core\/b\/Gone is not there/],
  ["nothing is cited", "core/a/A.ts", "/** As `docs/gone.md` says. */", /docs\/gone\.md is not there: cite/],
  ["nothing is cited", "core/a/A.ts", 'throw new Error("see docs/gone.md");', /:1 docs\/gone\.md is not there/],
  ["nothing is cited", "core/a/A.ts", "/** `protocol.md` §2,\n * §2.7 */", /has no section 2\.7/],
  ["nothing is cited", "core/a/A.ts", "/** Holds I1 and I13. */", /has no invariant I13/],
  ["nothing is cited", "core/a/A.ts", "/**\n * 1. One.\n */\n// Rule 2.", /header of A has no rule 2/],
  ["nothing is cited", "core/a/A.ts", "/**\n * 1. One (`A`, 3).\n */", /header of A has no rule 3/],
  ["no retired word", "core/a/A.ts", "const out = new WebhookOut();", /"WebhookOut" is retired: PendingWebhook/],
  ["no retired word", "services/host/A.ts", "this.sendParcels();", /a batch of requests/],
  ["subscriptions", "services/nats/A.ts", 'nats.connection.client.subscribe("x", {});', /guards the read loop/],
]; // prettier-ignore

/** What must pass: the same words where they mean nothing bad. */
const INNOCENT: ReadonlyArray<readonly [rule: string, path: string, text: string]> = [
  ["layers", "core/a/A.ts", 'import { x } from "effect/Schema";\n// import { y } from "node:fs";'],
  ["layers", "services/host/main.ts", 'import { x } from "../nats/x.ts";'],
  ["layers", "services/host/A.ts", 'import { x } from "../../core/x.ts"; import fs from "node:fs";'],
  ["no file or folder is", "core/commons-clause/A.ts", ""],
  ["no file is longer", "core/a/A.ts", "x;\n".repeat(400)],
  ["tests lie", "test/sim/a.test.ts", ""],
  ["comments end", "core/a/A.ts", `/**\n * ${"x".repeat(120)}\n *     ${"a b ".repeat(40)}\n */`],
  ["a class has", "core/a/A.ts", "class A {\n  #x = 1;\n  private constructor() {}\n}\nclass B {\n  private y = 2;\n}"],
  ["every file opens", "core/a/A.ts", HEADER],
  ["every file opens", "core/a/A.ts", "/** A small file. */\nx;"],
  ["each numeric", "core/a/A.ts", "/** Why. */\nconst A_MS = 1;\nconst B_MS = 2;\nconst C_MS = 3; // why"],
  ["each numeric", "services/sqlite/A.ts", "const ROW = 100;\nconst DONE = 101;"],
  ["each numeric", "core/a/A.ts", "const FRAME_VERSION = 1;\n\nconst NEWLINE = 0x0a;"],
  ["time,", "services/nats/A.ts", "setTimeout(f, 1);"],
  ["time,", "core/a/A.ts", '// Date.now()\nconst a = "Math.random"; const b = /setTimeout/; new Date(0); `new Date()`;'],
  ["nothing is cited", "core/a/A.ts", "/**\n * 1. See `core/b/B`, `core/b`, core/b/B.run and `docs/guides/x.md`; I12 (rule 1, `A`, 1).\n */"],
  ["nothing is cited", "core/a/A.ts", "/** `protocol.md` §2.1; rule 7 of another. */"],
  ["nothing is cited", "core/a/A.ts", 'const path = "core/c/C.ts";'],
  ["no retired word", "core/a/A.ts", "// WebhookOut of an older release\nconst lullaby = 1;"],
  ["no value", "core/a/A.ts", '// as any\nconst any = "x as any"; Promise.any([]); f({ any: 1 });'],
]; // prettier-ignore

describe("the rules catch what they are for", () => {
  const ruleOf = (start: string): Rule => RULES.find(({ name }) => name.startsWith(start))!;
  it.each(PLANTED)("%s: planted in %s", (rule, path, text, says) => {
    expect(
      show(ruleOf(rule), [sourceFile(path, text)], new Set(), PLANTED_REPOSITORY).join("\n"),
    ).toMatch(says);
  });
  it.each(INNOCENT)("%s: nothing in %s", (rule, path, text) => {
    expect(show(ruleOf(rule), [sourceFile(path, text)], new Set(), PLANTED_REPOSITORY)).toEqual([]);
  });
  it("every rule has a planted violation", () => {
    const others = ["no folder has"].map(ruleOf);
    const untested = RULES.filter(
      (rule) => !others.includes(rule) && !PLANTED.some(([start]) => ruleOf(start) === rule),
    );
    expect(untested.map(({ name }) => name)).toEqual([]);
  });
  it("a folder past the limit is found, with its number of files", () => {
    const filesOf = (length: number) =>
      Array.from({ length }, (_, n) => sourceFile(`core/a/A${n}.ts`, ""));
    const found = (length: number): string[] =>
      show(ruleOf("no folder has"), filesOf(length), new Set(), PLANTED_REPOSITORY);
    expect(found(30)).toEqual([]);
    expect(found(31)).toEqual(["core/a:1 31 files: divide it by what a reader looks for"]);
  });
  it("a circle through files and folders is found, with its path", () => {
    const rule = ruleOf("no file or folder imports");
    const through = (one: string, other: string) => [
      sourceFile("core/a/A.ts", `import type { B } from "../${one}.ts";`),
      sourceFile("core/b/B.ts", `export * from "../${other}.ts";`),
      sourceFile("core/a/C.ts", ""),
    ];
    const ways = (files: ReadonlyArray<SourceFile>): string[] =>
      show(rule, files, new Set(), PLANTED_REPOSITORY).map((line) =>
        line.slice(0, line.indexOf(": declare")),
      );
    expect(ways(through("b/B", "c/C"))).toEqual([]);
    expect(ways(through("b/B", "a/C"))).toEqual(["core/a/A.ts:1 core/a → core/b → core/a"]);
    expect(ways(through("b/B", "a/A"))).toEqual([
      "core/a/A.ts:1 core/a/A.ts → core/b/B.ts → core/a/A.ts",
      "core/a/A.ts:1 core/a → core/b → core/a",
    ]);
  });
  it("links of pages lead to files and headings", () => {
    const page = (text: string): Repository => ({
      ...PLANTED_REPOSITORY,
      texts: [...PLANTED_REPOSITORY.texts, { path: "docs/guides/y.md", text }],
    });
    const links = (text: string) => show(ruleOf("nothing is cited"), [], new Set(), page(text));
    expect(links("[a](x.md) [b](x.md#x-y-z) `[c](gone.md)` [d](https://example.com/e.md)")).toEqual(
      [],
    );
    expect(links("\n[a](gone.md)")).toEqual(["docs/guides/y.md:2 gone.md leads nowhere"]);
    expect(links("[a](x.md#gone)").join()).toMatch(/docs\/guides\/x\.md has no heading #gone/);
  });
  it("a file is used when another imports it or the package exports it", () => {
    const rule = ruleOf("every file is used");
    const files = [
      sourceFile("core/a/A.ts", ""),
      sourceFile("core/a/B.ts", 'export * from "./A.ts";'),
    ];
    expect(show(rule, files, new Set(["core/a/B.ts"]), PLANTED_REPOSITORY)).toEqual([]);
  });
  it("an export is used when another file imports or re-exports it, or any of its file", () => {
    const rule = ruleOf("every export");
    const exported = sourceFile("core/a/A.ts", "export const one = 1;\nexport type Two = 2;");
    const unused = (text: string, entry = ""): string[] =>
      show(rule, [exported, sourceFile("core/a/B.ts", text)], new Set([entry]), PLANTED_REPOSITORY);
    expect(unused('import {\n  one as other,\n  type Two,\n} from "./A.ts";')).toEqual([]);
    expect(unused('export { one, type Two } from "./A.ts";')).toEqual([]);
    expect(unused('export * from "./A.ts";')).toEqual([]);
    expect(unused('const { one } = await import("./A.ts");\none as Two;')).toEqual([]);
    expect(unused("", "core/a/A.ts")).toEqual([]);
    const two = ["core/a/A.ts:2 no other file imports Two: make it private, or delete it"];
    expect(unused('import { one } from "./A.ts";\ntype Two = 3;')).toEqual(two);
  });
});
