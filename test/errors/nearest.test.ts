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
])("%j is near %j: %j", (word, candidates, expected) => {
  expect(nearest(word, candidates)).toBe(expected);
});
