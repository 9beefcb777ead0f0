/**
 * The client's types, drawn from an agent's class: what compiles, and (each `@ts-expect-error`)
 * what does not. `npm run check` is what runs them; here they are only kept from being forgotten.
 */
import { describe, expectTypeOf, it } from "vitest";
import { Agent, callable, type StreamingResponse } from "../../services/agent/index.ts";
import { AgentClient, type CallOptions } from "../../services/client/index.ts";
import type { BaseMember } from "../../services/client/clientTypes.ts";

interface RepoState {
  readonly stars: number;
}

class RepoAgent extends Agent<object, RepoState> {
  override initialState: RepoState = { stars: 0 };
  label = "not a method";

  @callable()
  add(a: number, b: number): number {
    return a + b;
  }
  @callable()
  async list(limit?: number): Promise<string[]> {
    return [String(limit)];
  }
  @callable()
  touch(): void {}
  @callable()
  anything(value: unknown): unknown {
    return value;
  }
  @callable({ streaming: true })
  count(stream: StreamingResponse<number, string>, to: number): void {
    stream.send(to);
    stream.end("done");
  }
}

/** Never runs: only its types matter. */
function compiled(
  client: AgentClient<RepoAgent>,
  byClass: AgentClient<typeof RepoAgent>,
  byState: AgentClient<RepoState>,
  untyped: AgentClient,
): void {
  expectTypeOf(client.state).toEqualTypeOf<RepoState | undefined>();
  expectTypeOf(byClass.state).toEqualTypeOf<RepoState | undefined>();
  expectTypeOf(byState.state).toEqualTypeOf<RepoState | undefined>();
  expectTypeOf(untyped.state).toEqualTypeOf<unknown>();
  client.setState({ stars: 1 });
  // @ts-expect-error: not the agent's state
  client.setState({ stars: "many" });

  for (const each of [client, byClass]) {
    expectTypeOf(each.call("add", [1, 2])).toEqualTypeOf<Promise<number>>();
    expectTypeOf(each.call("list")).toEqualTypeOf<Promise<string[]>>();
    expectTypeOf(each.call("list", [3], { timeout: 5 })).toEqualTypeOf<Promise<string[]>>();
    expectTypeOf(each.call("touch")).toEqualTypeOf<Promise<void>>();
    expectTypeOf(each.stub.add(1, 2)).toEqualTypeOf<Promise<number>>();
    expectTypeOf(each.stub.list()).toEqualTypeOf<Promise<string[]>>();
  }
  // A stream's own argument is the server's; its chunks and its end have their types.
  const counted = client.call("count", [3], {
    onChunk: (chunk) => expectTypeOf(chunk).toEqualTypeOf<number>(),
    onDone: (last) => expectTypeOf(last).toEqualTypeOf<string | undefined>(),
  });
  expectTypeOf(counted).toEqualTypeOf<Promise<string | undefined>>();
  expectTypeOf(client.stub.count(3)).toEqualTypeOf<Promise<string | undefined>>();

  // @ts-expect-error: no such method
  void client.call("missing");
  // @ts-expect-error: a field is not a method
  void client.call("label");
  // @ts-expect-error: a method of every agent is nobody's RPC
  void client.call("setState", [{ stars: 1 }]);
  // @ts-expect-error: arguments are needed
  void client.call("add");
  // @ts-expect-error: arguments have types
  void client.call("add", ["1", 2]);
  // @ts-expect-error: the stream is not the client's to pass
  void client.call("count", [{}, 3]);
  // @ts-expect-error: no such method
  void client.stub.missing();
  // @ts-expect-error: nor a stub of the base class's
  void client.stub.onStart();

  expectTypeOf(untyped.call<number>("any", [1], { timeout: 1 })).toEqualTypeOf<Promise<number>>();
  void untyped.stub["any"]?.(1).then((moved) => moved.ok);
  void byState.call("any");
  const options: CallOptions = { timeout: 1, stream: { onChunk: () => undefined } };
  void untyped.call("any", [], options);
}

describe("the client's types", () => {
  it("have an agent's state and methods, and nothing else", () => {
    expectTypeOf(compiled).toBeFunction();
  });
  it("list every member of the base class, in order to exclude it", () => {
    expectTypeOf<Exclude<keyof Agent & string, BaseMember>>().toEqualTypeOf<never>();
  });
});
