/** Imports that only the reference package has: the list, and what their user reads. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  INSTEAD,
  REFERENCE_ENTRIES,
  REFERENCE_NAMES,
  REFERENCE_VERSION,
} from "../../services/module/missingNames.ts";
import { installedName, underInstalledName } from "../../services/ownPackage/installedName.ts";
import { LoaderProcess } from "./LoaderProcess.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const REFERENCE = new URL("../../node_modules/reference-agents/", import.meta.url);
interface Manifest {
  readonly version: string;
  readonly exports: Readonly<Record<string, { readonly import?: string } | string>>;
}
const manifest = JSON.parse(readFileSync(new URL("package.json", REFERENCE), "utf8")) as Manifest;
const own = JSON.parse(
  readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
) as Manifest;

/** What an entry of the reference exports at run time. An import would need its platform. */
function namesOf(entry: string): string[] {
  const target = manifest.exports[entry.replace(/^agents/, ".")];
  if (typeof target !== "object" || target.import === undefined) throw new Error(`no ${entry}`);
  const text = readFileSync(new URL(target.import, REFERENCE), "utf8");
  const lists = [...text.matchAll(/^export \{([^}]*)\}/gm)].map((found) => found[1] ?? "");
  if (lists.length === 0) throw new Error(`${entry}: no export list was found`);
  return lists
    .flatMap((list) => list.split(","))
    .map(
      (item) =>
        item
          .trim()
          .split(/\s+as\s+/)
          .at(-1) ?? "",
    )
    .filter((name) => name !== "")
    .toSorted();
}

describe("the list of the reference's exports", () => {
  it("matches the installed version, and has each of its entries", () => {
    expect(manifest.version).toBe(REFERENCE_VERSION);
    const entries = Object.keys(manifest.exports).filter((key) => key !== ".");
    expect(REFERENCE_ENTRIES.map((path) => `./${path}`).toSorted()).toEqual(entries.toSorted());
  });

  it.each(Object.keys(REFERENCE_NAMES))("has each name of %s", (entry) => {
    expect([...(REFERENCE_NAMES[entry] ?? [])].toSorted()).toEqual(namesOf(entry));
  });

  it("has the names of each entry that both packages have", () => {
    const both = Object.keys(own.exports)
      .filter((key) => typeof manifest.exports[key] === "object")
      .map((key) => key.replace(/^\./, "agents"));
    expect(both.filter((entry) => REFERENCE_NAMES[entry] === undefined)).toEqual([]);
  });

  it("excludes everything else", () => {
    const all = new Set(Object.values(REFERENCE_NAMES).flat());
    const entries = new Set(REFERENCE_ENTRIES.map((path) => `agents/${path}`));
    expect(Object.keys(INSTEAD).filter((key) => !all.has(key) && !entries.has(key))).toEqual([]);
  });
});

describe("errors that name an entry", () => {
  it("name the package as the app has installed it", () => {
    const installed = (folder: string) =>
      underInstalledName(
        'm.ts: "agents" has no x. Use y from "agents/webhooks"',
        installedName(`file:///app/${folder}/`),
      );
    expect(installed("node_modules/turnkeep")).toBe(
      'm.ts: "turnkeep" has no x. Use y from "turnkeep/webhooks"',
    );
    for (const folder of ["node_modules/agents", "checkout/turnkeep"])
      expect(installed(folder)).toContain('"agents" has no x. Use y from "agents/webhooks"');
  });
});

describe("a module that imports an export that only the reference has", () => {
  let loader: LoaderProcess;
  let folder: string;
  beforeAll(() => {
    loader = new LoaderProcess("source");
    folder = tempFolder("missing").path;
  });
  afterAll(async () => {
    await loader.stop();
  });
  const put = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const messageOf = async (file: string): Promise<string> => {
    const { error } = await loader.load(file);
    return error?.message ?? "it loaded";
  };

  it("gets an error with the name, the file, the fact that the reference has it, and what to use", async () => {
    const file = put(
      "name.ts",
      `import { Agent, DurableObjectOAuthClientProvider } from "agents";\nexport class A extends Agent { static c = DurableObjectOAuthClientProvider; }`,
    );
    expect(await messageOf(file)).toBe(
      `${file}:1: "agents" has no DurableObjectOAuthClientProvider here: the reference package (0.32.0) has it, this one does not (yet). Use StoredOAuthProvider from "agents"`,
    );
  });

  it("gets an error that says so if there is no replacement", async () => {
    const file = put(
      "none.ts",
      `import { AGENT_TOOL_PROGRESS_PART } from "agents";\nconsole.log(AGENT_TOOL_PROGRESS_PART);`,
    );
    expect(await messageOf(file)).toMatch(
      /"agents" has no AGENT_TOOL_PROGRESS_PART here: the reference .* There is nothing here to use instead$/,
    );
  });

  it.each([
    [
      "agents/x402",
      /there is no "agents\/x402" here: the reference package .* nothing here to use/,
    ],
    [
      "agents/chat/react",
      /there is no "agents\/chat\/react" here: .* Use a method marked @callable/,
    ],
    ["agents/schedules/parser", /Use "agents\/schedule"$/],
  ])("gets an error about the entry %s, from the file that imports it", async (entry, message) => {
    put("deep.ts", `import * as it from "${entry}";\nexport const x = it;`);
    const text = await messageOf(
      put("entry.ts", `import { x } from "./deep.ts";\nexport const y = x;`),
    );
    expect(text).toMatch(message);
    expect(text.startsWith(`${join(folder, "deep.ts")}: `)).toBe(true);
  });

  it("gets no mention of the reference for a name that neither package has", async () => {
    const name = put("typo.ts", `import { Agnet } from "agents";\nexport const x = Agnet;`);
    expect(await messageOf(name)).toBe(
      `${name}:1: "agents" has no Agnet. If it is a type, write \`import type\``,
    );
    const entry = put("path.ts", `import "agents/reakt";`);
    expect(await messageOf(entry)).toBe(
      `${entry}: there is no "agents/reakt". Check the import's spelling`,
    );
  });
});
