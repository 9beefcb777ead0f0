/** Frames are sent once at most: after a loss, a client still gets the last state. */
import { expect, test } from "vitest";
import { Agent } from "agents";
import { Link } from "../faults/rig/Link.ts";
import { startTestGateway, startTestHost } from "../kit/system.ts";
import { TestSocket, useSystems } from "./kit.ts";

class Board extends Agent<unknown, { readonly n: number }> {
  override initialState = { n: 0 };

  override onMessage(_: unknown, message: string) {
    if (message === "bump") this.setState({ n: this.state.n + 1 });
    else this.broadcast(JSON.stringify({ type: "said" }));
  }
  override shouldSendProtocolMessages(_: unknown, { request }: { readonly request: Request }) {
    return !request.url.includes("plain");
  }
}

const systems = useSystems();
/** No lease runs out in a test: it is the connection alone that is lost. */
const LEASE_TTL_MS = 20_000;
const make = () => systems.options({ agents: { Board } }, { leaseTtlMs: LEASE_TTL_MS });
const linkTo = (nats: string): Promise<Link> => Link.open([Number(new URL(nats).port)]);

const open = async (url: string, query = "", frames = 3): Promise<TestSocket> => {
  const socket = await TestSocket.open(`${url}/agents/board/b?${query}`);
  await socket.first(frames);
  socket.frames.length = 0;
  return socket;
};
const shows = (socket: TestSocket, n: number): Promise<unknown> =>
  socket.until(`a state of ${n}`, () => (socket.states.at(-1) as { n?: number })?.n === n);

test("a gateway that was briefly disconnected sends its clients what they missed", async () => {
  const options = make();
  const link = await linkTo(options.nats);
  const host = await startTestHost(options, "host-a");
  const away = await startTestGateway({ ...options, nats: link.url }, "gateway-away");
  const here = await startTestGateway(options, "gateway-here");
  const listener = await open(away.url);
  const plain = await TestSocket.open(`${away.url}/agents/board/b?plain`);
  const writer = await open(here.url);
  link.cut();
  writer.send("bump");
  await shows(writer, 1);
  expect(listener.frames).toEqual([]);
  link.heal();
  await shows(listener, 1);
  // A client that takes no frames of the protocol gets none now either.
  expect(plain.frames).toEqual([]);
  for (const socket of [listener, plain, writer]) await socket.close();
  await away.stop();
  await here.stop();
  await host.stop();
  await link.close();
});

test("a briefly disconnected host sends its agents' states again", async () => {
  const options = make();
  const link = await linkTo(options.nats);
  const host = await startTestHost({ ...options, nats: link.url }, "host-a");
  const gateway = await startTestGateway(options, "gateway-a");
  const listener = await open(gateway.url);
  const writer = await open(gateway.url);
  writer.send("bump");
  await shows(listener, 1);
  listener.frames.length = 0;
  link.drop();
  await shows(listener, 1);
  for (const socket of [listener, writer]) await socket.close();
  await gateway.stop();
  await host.stop();
  await link.close();
});

test("an agent's next owner sends its state, in case the last owner died before it did", async () => {
  const options = make();
  const hostA = await startTestHost(options, "host-a");
  const gateway = await startTestGateway(options, "gateway-a");
  const listener = await open(gateway.url);
  const writer = await open(gateway.url);
  writer.send("bump");
  await shows(listener, 1);
  const hostB = await startTestHost(options, "host-b");
  await hostA.stop();
  listener.frames.length = 0;
  // It changes nothing, and wakes the agent.
  writer.send("hello");
  await shows(listener, 1);
  for (const socket of [listener, writer]) await socket.close();
  await gateway.stop();
  await hostB.stop();
});
