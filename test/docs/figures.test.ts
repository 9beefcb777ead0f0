/**
 * Figures that stand in more than one place: `npm run reference -- --write` puts them into the
 * sections of `docs/evidence/conformance.md`, and README and that page's summary repeat them.
 */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { drivenTable, rowsOf } from "../reference/drive/drivenTable.ts";

const textOf = (file: string): string =>
  readFileSync(new URL(`../../${file}`, import.meta.url), "utf8").replaceAll(/\s+/g, " ");
const PAGE = textOf("docs/evidence/conformance.md");
const README = textOf("README.md");

/** The part of the page that a command wrote. */
function sectionOf(command: string): string {
  const page = readFileSync(new URL("../../docs/evidence/conformance.md", import.meta.url), "utf8");
  const begin = page.indexOf(`<!-- ${command} -->`);
  expect(begin, command).toBeGreaterThan(0);
  return page.slice(begin, page.indexOf("<!-- end -->", begin));
}
/** The numbers that a text has in place of each `#`. */
function numbersIn(text: string, pattern: string): number[] {
  const parts = pattern.split("#").map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const found = new RegExp(parts.join("(\\d+)")).exec(text.replaceAll(/\s+/g, " "));
  expect(found, `not found: "${pattern}". Reworded? Change the pattern too`).not.toBeNull();
  return found!.slice(1).map(Number);
}

const [here, servers, plain, plainLoaded] = numbersIn(
  sectionOf("npm run reference"),
  "# of # load. Of the # that need neither a service of the platform or of a vendor, nor chat, think or voice, # load.",
);
const [installed] = numbersIn(sectionOf("npm run reference -- --installed"), "# of # load.");
const driven = sectionOf("npm run reference -- --drive");
const [all, examples, hereLoad, hereAll, hereSame, , installedAll, installedSame] = numbersIn(
  driven,
  "# behaviours of # examples. Here # load, and of their # behaviours # are the same. With the reference's own package # load, and of their # behaviours # are the same.",
);

it("the sums above the table of driven examples are those of its rows", () => {
  const [sums] = drivenTable(rowsOf(driven)).split("\n");
  expect(driven.replaceAll(/\s+/g, " ")).toContain(sums);
});

it("the page's summary repeats its sections", () => {
  expect(numbersIn(PAGE, "| # servers | #, among them all # that need nothing of the platform, a vendor, chat, think or voice; with the reference's own package # |")) // prettier-ignore
    .toEqual([servers, here, plain, installed]);
  expect(plainLoaded).toBe(plain);
  expect(numbersIn(PAGE, "| # of # behaviours are the same; with the reference's own package # of # |")) // prettier-ignore
    .toEqual([hereSame, hereAll, installedSame, installedAll]);
  const [server, serverAll, client, clientAll] = numbersIn(PAGE, "| server: # of #; client: # of # |"); // prettier-ignore
  expect(numbersIn(PAGE, "All # scenarios for servers hold, and # of # for clients")).toEqual([
    server,
    client,
    clientAll,
  ]);
  expect(serverAll).toBe(server);
});

it("README repeats the page", () => {
  expect(numbersIn(README, "of the # example servers")).toEqual([servers]);
  expect(numbersIn(README, "| as they are | # | # of them | # of # |")).toEqual([
    here,
    hereLoad,
    hereSame,
    hereAll,
  ]);
  expect(numbersIn(README, "own package | # | # of them | # of # |")).toEqual([
    installed,
    examples,
    installedSame,
    all,
  ]);
  expect(numbersIn(README, "Among the # are all # that need")).toEqual([here, plain]);
  expect(numbersIn(README, "[# of # servers as they are, # with one line]")).toEqual([
    here,
    servers,
    installed,
  ]);
});
