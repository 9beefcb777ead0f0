/** What a host logs of an agent that can't start. */
import { expect, test } from "vitest";
import { reasonOf, UnknownAgentClass } from "../../services/host/slotErrors.ts";

test("a class that a module lacks is reported with the remedy and without a stack; a defect with its stack", () => {
  expect(reasonOf(new UnknownAgentClass("Foo", ["Shop"]))).toBe(
    'No agent class "Foo" is exported by this host\'s module: export it, or erase its agents',
  );
  expect(new UnknownAgentClass("shopagnt", ["Room", "ShopAgent"]).message).toMatch(
    /exported .*, or erase its agents\. Did you mean "ShopAgent"\?$/,
  );
  expect(reasonOf(new Error("a defect"))).toMatch(/a defect\n +at /);
});
