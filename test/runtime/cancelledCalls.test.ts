/** Calls that their client cancels (`rpc_cancel`): streams end at once, other calls as they do. */
import { expect, test } from "vitest";
import { Agent, callable, getCurrentAgent, type StreamingResponse } from "agents";
import { pollUntil } from "../kit/poll.ts";
import { TestSocket, useSystems } from "../system/kit.ts";

const systems = useSystems();

let stream: StreamingResponse | undefined;
let wasClosed: boolean | undefined;
let release: (() => void) | undefined;

class Worker extends Agent {
  @callable()
  wait(): Promise<string> {
    return new Promise((resolve) => (release = () => resolve("done")));
  }
  /** Runs until it is released. */
  @callable({ streaming: true })
  run(response: StreamingResponse): Promise<void> {
    const { signal } = getCurrentAgent();
    signal!.addEventListener("abort", () => (wasClosed = response.isClosed));
    return new Promise((resolve) => {
      release = resolve;
      this.keepOpen(response);
    });
  }
  @callable({ streaming: true })
  keepOpen(response: StreamingResponse): void {
    stream = response;
    response.send("first");
  }
  @callable({ streaming: true })
  follow(response: StreamingResponse): void {
    response.follow(this.stream("a"));
  }
  @callable()
  write(chunk: string): void {
    this.stream("a").write(chunk);
  }
}

test("a cancelled streaming call is answered at once, and its stream sends nothing more", async () => {
  const { gateway, stop } = await systems.start({ agents: { Worker } });
  const socket = await TestSocket.open(`${gateway.url}/agents/worker/w`);
  const call = (id: string, method: string, ...args: unknown[]): void =>
    socket.send(JSON.stringify({ type: "rpc", id, method, args }));
  const cancel = (id: string): void => socket.send(JSON.stringify({ type: "rpc_cancel", id }));
  const replies = (id: string) => (socket.json as ReadonlyArray<{ id?: string }>).filter((one) => one.id === id); // prettier-ignore
  const count = (id: string, wanted: number) =>
    pollUntil(`${wanted} replies to ${id}`, () => replies(id).length === wanted);
  const cancelled = { type: "rpc", success: false, error: "The client has cancelled the call" };

  for (const id of ["run", "keepOpen"]) {
    call(id, id);
    await count(id, 1);
    cancel(id);
    await count(id, 2);
    expect(replies(id)[1]).toEqual({ ...cancelled, id });
    expect(stream!.isClosed).toBe(true);
    expect([stream!.send("late"), stream!.end("late")]).toEqual([false, false]);
  }
  expect(wasClosed).toBe(true);
  release!();

  call("write", "write", "one");
  await count("write", 1);
  call("follow", "follow");
  await count("follow", 1);
  cancel("follow");
  await count("follow", 2);
  expect(replies("follow")[1]).toEqual({ ...cancelled, id: "follow" });
  call("again", "write", "two");
  await count("again", 1);

  release = undefined;
  call("wait", "wait");
  await pollUntil("it runs", () => release !== undefined);
  cancel("wait");
  call("between", "write", "three");
  await count("between", 1);
  expect(replies("wait")).toEqual([]);
  release!();
  await count("wait", 1);
  expect(replies("wait")[0]).toMatchObject({ success: true, result: "done" });

  for (const id of ["run", "keepOpen", "follow"]) expect(replies(id)).toHaveLength(2);
  await socket.close();
  await stop();
});
