import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import { summarise } from "../../examples/github/summarise.ts";

/** Real payloads, as GitHub sent them. */
const REAL = createRequire(import.meta.url)("@octokit/webhooks-examples") as ReadonlyArray<{
  readonly name: string;
  readonly examples: ReadonlyArray<Readonly<Record<string, unknown>>>;
}>;
const first = (name: string): unknown => REAL.find((event) => event.name === name)!.examples[0];

describe("one line about a GitHub event", () => {
  it("has a title for every real payload, and a valid link, if any", () => {
    let count = 0;
    for (const { name, examples } of REAL)
      for (const payload of examples) {
        const { title, url } = summarise(name, payload);
        expect(title.trim(), name).not.toBe("");
        expect(title, name).not.toMatch(/undefined|null|\[object/);
        expect(url ?? "https://", name).toMatch(/^https:\/\//);
        count++;
      }
    expect(count).toBeGreaterThan(100);
  });

  it("names the subject of an event", () => {
    expect(summarise("issues", first("issues"))).toMatchObject({
      title: "Issue #1 edited: Spelling error in the README file",
      actor: "Codertocat",
      repository: "Codertocat/Hello-World",
    });
    expect(summarise("push", first("push")).title).toMatch(/^\d+ commits? to /);
    expect(summarise("star", { action: "created" }).title).toBe("Starred");
  });

  const odd = [
    null,
    "x",
    { sender: "x", issue: null },
    { issue: { html_url: "javascript:alert(1)" } },
  ];
  it.each(odd)("is written for any value: %j", (payload) => {
    expect(summarise("issues", payload)).toMatchObject({ url: null, actor: null });
    expect(summarise("push", payload).title).toBe("0 commits to a branch");
  });
});
