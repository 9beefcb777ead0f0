/** Calls of clients that do not ask which are lost (`rpc:lost`), as those of the reference. */
import { expect, test } from "vitest";
import { Agent, callable, type StreamingResponse } from "agents";
import { testAgents } from "agents/testing";
import { CALL_LOST } from "../../schemas/rpcLost.ts";

class Worker extends Agent {
  @callable()
  wait(): Promise<void> {
    return new Promise(() => undefined);
  }
  @callable()
  answer(): number {
    return 1;
  }
  @callable({ streaming: true })
  keepOpen(stream: StreamingResponse): void {
    stream.send("chunk");
  }
  @callable({ streaming: true })
  follow(stream: StreamingResponse, key: string): void {
    stream.follow({ key });
  }
}

interface Reply {
  readonly type: string;
  readonly id?: string;
}
const rpc = (id: string, method: string, ...args: unknown[]): string =>
  JSON.stringify({ type: "rpc", id, method, args });
const lost = (id: string) => ({ type: "rpc", id, success: false, error: CALL_LOST });

test.each(["by the census", "by the client's next message"])(
  "calls that ran on a lost host are refused once, found %s",
  async (how) => {
    await using t = await testAgents({ agents: [Worker] });
    const client = await t.connect(Worker, "a");
    const replies = (): Reply[] => (client.frames as Reply[]).filter(({ type }) => type === "rpc");
    client.send(rpc("1", "wait"));
    client.send(rpc("2", "keepOpen"));
    client.send(rpc("3", "answer"));
    client.send(rpc("4", "follow", "never begun"));
    await t.advance("1 second");
    expect(replies().map(({ id }) => id)).toEqual(["2", "3"]);
    await t.crash();
    if (how !== "by the census") client.send(rpc("5", "answer"));
    await t.revive();
    await t.advance("10 seconds");
    expect(replies().slice(2)).toEqual(expect.arrayContaining([lost("1"), lost("2")]));
    await t.crash();
    await t.revive();
    client.send(rpc("6", "answer"));
    await t.advance("10 seconds");
    const ids = replies().map(({ id }) => id);
    const own = how === "by the census" ? [] : ["5"];
    expect(ids.toSorted()).toEqual(["1", "2", "2", "3", ...own, "6"].toSorted());
    expect(client.closed).toBeUndefined();
  },
);
