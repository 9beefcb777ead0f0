/** The room: who is there follows sockets, and nobody misses what was said. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import * as server from "./server.ts";

let test: TestAgents;
beforeEach(async () => (test = await testAgents({ module: server })));
afterEach(() => test.close());
const enter = (name: string) => test.connect(server.ChatRoom, "lobby", { query: { name } });

it("presence counts people, not tabs, and follows a connection that is cut", async () => {
  const ann = await enter("ann");
  const again = await enter("ann");
  const bob = await enter("bob");
  await test.settled();
  expect(bob.state).toEqual({ present: ["ann", "bob"] });
  await again.close();
  expect(bob.state).toEqual({ present: ["ann", "bob"] });
  await ann.cut();
  await test.settled();
  expect(bob.state).toEqual({ present: ["bob"] });
});

it("a message reaches everybody, and who comes late asks for what was said", async () => {
  const ann = await enter("ann");
  const bob = await enter("bob");
  await ann.call("say", ["hello"]);
  await test.settled();
  const message = { id: 1, name: "ann", text: "hello" };
  expect(bob.messages).toContainEqual({ type: "message", message });
  const late = await enter("eve");
  expect(await late.call("since", [0])).toEqual([message]);
});

it("what was said outlives the room's host", async () => {
  const ann = await enter("ann");
  await ann.call("say", ["hello"]);
  await test.crash();
  await test.revive();
  expect(await (await enter("bob")).call("since")).toHaveLength(1);
});

it("nobody sets presence, stays nameless or says nothing", async () => {
  const ann = await enter("ann");
  await expect(ann.setState({ present: ["the king"] })).rejects.toThrow("State update rejected");
  await expect(ann.call("say", [" "])).rejects.toThrow("1 to 2000 characters");
  const nameless = await test.connect(server.ChatRoom, "lobby");
  await test.settled();
  expect(nameless.closed).toMatchObject({ code: 4000 });
});
