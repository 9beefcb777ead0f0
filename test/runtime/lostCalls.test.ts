/** Which calls of a socket an agent will not answer (`rpc:lost`), so that its client knows. */
import { expect, test } from "vitest";
import { Agent, callable, type StreamingResponse } from "agents";
import { pollUntil } from "../kit/poll.ts";
import { TestSocket, useSystems } from "../system/kit.ts";

const systems = useSystems();

let open: StreamingResponse | undefined;
let release = (): void => undefined;

class Worker extends Agent {
  static override options = { hibernateAfterSeconds: 0.2 };

  @callable()
  wait(): Promise<void> {
    return new Promise((resolve) => (release = resolve));
  }
  @callable({ streaming: true })
  keepOpen(stream: StreamingResponse): void {
    open = stream;
  }
  /** Its stream begins at once, or never. */
  @callable({ streaming: true })
  follow(stream: StreamingResponse, key: string): void {
    stream.follow({ key });
  }
}

test("an agent runs a call until it is answered, and none that it does not know", async () => {
  const { gateway, stop } = await systems.start({ agents: { Worker } });
  const socket = await TestSocket.open(`${gateway.url}/agents/worker/w`);
  const call = (id: string, method: string, ...args: unknown[]): void =>
    socket.send(JSON.stringify({ type: "rpc", id, method, args }));
  const replies = () => socket.json as ReadonlyArray<{ id?: string; result?: unknown }>;
  let questions = 0;
  const lostOf = async (...ids: unknown[]): Promise<unknown> => {
    const question = `question ${++questions}`;
    call(question, "rpc:lost", ...ids);
    const answer = await pollUntil("it is answered", () =>
      replies().find((one) => one.id === question),
    );
    expect(answer).toMatchObject({ type: "rpc", success: true, done: true });
    return answer.result;
  };
  call("1", "wait");
  call("2", "keepOpen");
  call("3", "follow", "never begun");
  expect(await lostOf("1", "2", "3")).toEqual([]);
  const unknown = ["4", "", 1, null, ["1"], "__proto__"];
  expect(await lostOf("1", ...unknown)).toEqual(unknown);
  release();
  open!.end("done");
  await pollUntil("both are answered", () => replies().filter(({ id }) => id === "1" || id === "2").length === 2); // prettier-ignore
  expect(await lostOf("1", "2", "3")).toEqual(["1", "2"]);
  await socket.close();
  await stop();
});

test("a stream that was left open is lost when its agent leaves memory", async () => {
  const { gateway, host, stop } = await systems.start({ agents: { Worker } });
  const socket = await TestSocket.open(`${gateway.url}/agents/worker/w`);
  const ask = async (id: string, method: string, ...args: unknown[]): Promise<unknown> => {
    socket.send(JSON.stringify({ type: "rpc", id, method, args }));
    if (method === "keepOpen") return pollUntil("it has begun", () => open !== undefined);
    const found = (): unknown => socket.json.find((one) => (one as { id?: string }).id === id);
    return ((await pollUntil("it is answered", found)) as { result: unknown }).result;
  };
  open = undefined;
  await ask("1", "keepOpen");
  await pollUntil("it hibernates", () => host.host.agentsActive === 0);
  expect(await ask("2", "rpc:lost", "1")).toEqual(["1"]);
  await socket.close();
  await stop();
});
