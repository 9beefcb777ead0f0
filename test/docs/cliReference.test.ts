/** `docs/reference/cli.md` says what the commands' help says. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { CLI_REFERENCE, cliReference } from "./cliReference.ts";

it("the command-line reference is what the commands' help says", async () => {
  const page = readFileSync(CLI_REFERENCE, "utf8");
  expect(page, 'stale: run "npm run docs:cli"').toBe(await cliReference());
});

it("no line of the help is wider than 100 columns", async () => {
  const lines = (await cliReference()).split("\n").filter((line) => !line.startsWith("<!--"));
  expect(lines.filter((line) => line.length > 100)).toEqual([]);
});

it("each command has a section", async () => {
  const titles = [...(await cliReference()).matchAll(/^#+ `(agents.*)`$/gm)].map(
    ([, title]) => title,
  );
  expect(titles).toEqual(
    expect.arrayContaining(["agents dev", "agents restore", "agents dead redrive"]),
  );
  expect(new Set(titles).size).toBe(titles.length);
});
