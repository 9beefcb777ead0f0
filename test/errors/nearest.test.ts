import { expect, it } from "vitest";
import { nearest } from "../../core/errors/nearest.ts";

const CLASSES = ["RepoAgent", "Team", "AIHelper"];

it.each([
  ["webhook", ["webhooks", "fetch", "email"], "webhooks"],
  ["fecth", ["webhooks", "fetch", "email"], "fetch"],
  ["RepoAgnet", CLASSES, "RepoAgent"],
  ["repo-agents", CLASSES, "RepoAgent"],
  ["ai-helper", CLASSES, "AIHelper"],
  ["no-such", CLASSES, undefined],
  ["", CLASSES, undefined],
  ["anything", [], undefined],
])("the nearest name to %j among %j is %j", (word, candidates, expected) => {
  expect(nearest(word, candidates)).toBe(expected);
});
