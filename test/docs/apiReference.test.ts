/** The package's reference agrees with its sources, and documents all that users call. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { apiIndex, apiReference, ENTRIES, pageOf } from "./apiReference.ts";
import { publicSurface } from "./publicMembers.ts";

const entries = Object.keys(ENTRIES);

it.each(entries)("the page of %s is what `npm run docs:api` writes", (entry) => {
  expect(readFileSync(pageOf(entry), "utf8")).toBe(apiReference(entry));
});

it("every entry of package.json has a page", () => {
  const { exports } = JSON.parse(
    readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
  ) as { readonly exports: Readonly<Record<string, string | { readonly default: string }>> };
  const folders = Object.values(exports).flatMap((entry) =>
    typeof entry === "string" ? [] : [/services\/(\w+)\//.exec(entry.default)![1]],
  );
  expect(folders.toSorted()).toEqual(entries.toSorted());
  expect(readFileSync(pageOf("README"), "utf8")).toBe(apiIndex());
});

/** Name and type explain a field; everything that is called has to be documented. */
const isCalled = (signatures: ReadonlyArray<string>): boolean =>
  signatures.some((signature) => signature.includes("("));

it.each(entries)("every export of %s, and every method of one, has a docstring", (entry) => {
  const surface = publicSurface(entry);
  const bare = surface.flatMap(({ exportedAs, path, doc, members }) => [
    ...(doc === "" ? [`${exportedAs} (${path})`] : []),
    ...members
      .filter((member) => member.doc === "" && isCalled(member.signatures))
      .map(({ name }) => `${exportedAs}.${name} (${path})`),
  ]);
  expect(bare).toEqual([]);
  expect(surface.length).toBeGreaterThan(0);
});

it("every member of Agent has a docstring, fields included", () => {
  const { members } = publicSurface("agent").find(({ name }) => name === "Agent")!;
  expect(members.filter(({ doc }) => doc === "").map(({ name }) => name)).toEqual([]);
  const names = members.map(({ name }) => name);
  expect(names).toEqual(
    expect.arrayContaining(["setState", "schedule", "onEmail", "initialState"]),
  );
  const { signatures } = members.find(({ name }) => name === "schedule")!;
  expect(signatures.length, "all overloads of schedule").toBe(5);
});
