/** The options of `routeAgentRequest`, as a module without types may write them. */
import { expect, test } from "vitest";
import { routeAgentRequest } from "agents";

const route = (options: object) =>
  routeAgentRequest(new Request("http://localhost/agents/no-class/name"), {}, options);

test.each([
  ["onBeforeConect", "onBeforeConnect"],
  ["onBeforeRequests", "onBeforeRequest"],
  ["Cors", "cors"],
])("a misspelt option is refused, since it would check nobody: %s", async (option, meant) => {
  await expect(route({ [option]: () => undefined })).rejects.toThrow(
    `routeAgentRequest: unknown option "${option}". Did you mean "${meant}"?`,
  );
});

test("options of the reference that mean nothing here are accepted", async () => {
  const options = { locationHint: "enam", jurisdiction: "eu", routingRetry: {}, somethingElse: 1 };
  expect((await route(options))?.status).toBe(400);
});
