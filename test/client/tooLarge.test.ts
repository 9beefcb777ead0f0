/** A message that the server refuses as too large (close code 1009): the client says which. */
import { expect, it, vi } from "vitest";
import { AgentClient, agentFetch } from "../../services/client/index.ts";
import { ClientPool } from "./clients.ts";
import { type FakePeer, until, useFakeServer } from "./FakeServer.ts";

const pool = new ClientPool({ AgentClient, agentFetch });
const LARGE = "y".repeat(10_000);
const CALL = "Connection closed: the call of large is larger than the server accepts";
const STATE = "State update rejected: the message is larger than the server accepts";
const server = useFakeServer(() => pool.close());

const refuse = async (peer: FakePeer, messages: number): Promise<void> => {
  await until("all have arrived", () => peer.received.length === messages);
  peer.close(1009, "Message too large");
};

it("a call that is too large rejects with that, also with a key, and the others as lost", async () => {
  const onStateUpdateError = vi.fn();
  const client = pool.open({ host: server.host, onStateUpdateError });
  const large = expect(client.call("large", [LARGE], { key: "k" })).rejects.toThrow(CALL);
  const small = expect(client.call("small")).rejects.toThrow(/^Connection closed$/);
  client.setState({ n: 1 });
  await refuse(await server.peer(), 3);
  await Promise.all([large, small]);
  const next = await server.peer(2);
  const again = expect(client.call("large", ["€".repeat(5_000)])).rejects.toThrow(CALL);
  client.send(LARGE);
  await refuse(next, 2);
  await again;
  const third = await server.peer(3);
  await until("it is open", () => client.readyState === client.OPEN);
  expect(third.received).toEqual([]);
  expect(onStateUpdateError).not.toHaveBeenCalled();
});

it("a state that is too large is reported, set before or during the connection", async () => {
  const onStateUpdateError = vi.fn();
  const client = pool.open({ host: server.host, onStateUpdateError });
  client.setState(LARGE);
  const small = expect(client.call("small")).rejects.toThrow(/^Connection closed$/);
  await refuse(await server.peer(), 2);
  await small;
  expect(onStateUpdateError.mock.calls).toEqual([[STATE]]);
  const next = await server.peer(2);
  await until("it is open", () => client.readyState === client.OPEN);
  client.setState(LARGE);
  await refuse(next, 1);
  await until("it is reported", () => onStateUpdateError.mock.calls.length === 2);
});

it("another close code, and bytes that are too large, are blamed on no call and no state", async () => {
  const onStateUpdateError = vi.fn();
  const client = pool.open({ host: server.host, onStateUpdateError });
  const large = expect(client.call("large", [LARGE])).rejects.toThrow(/^Connection closed$/);
  client.setState(LARGE + LARGE);
  const first = await server.peer();
  await until("both have arrived", () => first.received.length === 2);
  first.close(1011);
  await large;
  const next = await server.peer(2);
  await until("it is open", () => client.readyState === client.OPEN);
  client.setState(LARGE);
  client.send(new Uint8Array(20_000));
  const lost = expect(client.call("lost")).rejects.toThrow(/^Connection closed$/);
  await refuse(next, 3);
  await lost;
  expect(onStateUpdateError).not.toHaveBeenCalled();
});
