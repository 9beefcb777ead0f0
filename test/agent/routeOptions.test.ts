/** The options of `routeAgentRequest`, as a module without types may write them. */
import { expect, test } from "vitest";
import { getAgentByName, routeAgentRequest } from "agents";

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

test("a misspelt option of a stub is refused, since its agent would start without it", async () => {
  const binding = { idFromName: () => undefined, get: () => undefined };
  const options: object = { porps: { plan: "pro" } };
  await expect(getAgentByName(binding, "ann", options)).rejects.toThrow(
    'getAgentByName: unknown option "porps". Did you mean "props"?',
  );
});
