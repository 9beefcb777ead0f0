/** Frames past the broker's payload limit: state, broadcast, client's message, method's result. */
import { beforeAll, describe, expect, test } from "vitest";
import { Agent, callable, type Connection } from "agents";
import { TestSocket, useSystems, type System } from "./kit.ts";

const MIB = 1024 * 1024;

class LargeAgent extends Agent<Record<string, unknown>, { readonly text: string }> {
  override initialState = { text: "small" };
  override onMessage(connection: Connection, message: string | ArrayBuffer) {
    if (message === "grow") return this.setState({ text: "ž".repeat(MIB) });
    if (message === "bytes") return this.broadcast(new Uint8Array(3 * MIB).map((_, i) => i % 251));
    const size = typeof message === "string" ? message.length : message.byteLength;
    connection.send(`${typeof message} of ${size}`);
  }
  @callable()
  large() {
    return "r".repeat(2 * MIB);
  }
}

const systems = useSystems({ maxPayload: MIB });
let system: System;
beforeAll(async () => {
  system = await systems.start({ agents: { LargeAgent } });
});
const open = async (name: string) => {
  const socket = await TestSocket.open(`${system.url}/agents/large-agent/${name}`);
  await socket.first(3);
  return socket;
};

/** The first `count` frames without repeats: a state is sent again where a frame may be lost. */
async function firstOf(socket: TestSocket, count: number): Promise<Array<string | Buffer>> {
  const found = (): Array<string | Buffer> => [...new Set(socket.frames)];
  await socket.until(`${count} frames`, () => found().length >= count);
  return found();
}

describe("a frame past the broker's payload limit", () => {
  test("reaches every client whole and in order: a state, bytes, a result", async () => {
    const [a, b] = [await open("out"), await open("out")];
    a.send("grow");
    a.send("bytes");
    for (const socket of [a, b]) {
      const frames = await firstOf(socket, 5);
      expect(JSON.parse(String(frames[3]))).toEqual({
        type: "cf_agent_state",
        state: { text: "ž".repeat(MIB) },
        seq: expect.any(Number),
      });
      const bytes = frames[4] as Buffer;
      expect(bytes.length).toBe(3 * MIB);
      expect(bytes.every((byte, i) => byte === i % 251)).toBe(true);
    }
    a.send({ type: "rpc", id: "1", method: "large", args: [] });
    const [, , , , , answer] = await firstOf(a, 6);
    expect(JSON.parse(String(answer))).toMatchObject({ id: "1", result: "r".repeat(2 * MIB) });
    const late = await open("out");
    expect(late.states).toEqual([{ text: "ž".repeat(MIB) }]);
    for (const each of [a, b, late]) await each.close();
  });

  test("reaches the agent, in order among small ones", async () => {
    const socket = await open("in");
    socket.send("before");
    socket.send("x".repeat(4 * MIB));
    socket.send(new Uint8Array(4 * MIB));
    socket.send("after");
    expect((await firstOf(socket, 7)).slice(3)).toEqual([
      "string of 6",
      `string of ${4 * MIB}`,
      `object of ${4 * MIB}`,
      "string of 5",
    ]);
    await socket.close();
  });
});
