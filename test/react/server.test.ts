/** Components on our server and a real broker, by both hooks, and the types they get. */
import { afterEach, beforeAll, describe, expect, expectTypeOf, it } from "vitest";
import { Agent, callable, type StreamingResponse } from "../../services/agent/index.ts";
import { useSystems } from "../system/kit.ts";
import { installWindow, Page, type AnyAgent, type Hook } from "./page.ts";

installWindow();
const { useAgent } = await import("../../services/react/index.ts");
const reference = await import("reference-agents/react");

interface CounterState {
  readonly count: number;
}

class CounterAgent extends Agent<object, CounterState> {
  override initialState: CounterState = { count: 0 };

  @callable()
  increment(by: number): number {
    this.setState({ count: this.state.count + by });
    return this.state.count;
  }
  @callable({ streaming: true })
  countdown(stream: StreamingResponse<number, string>, from: number): void {
    for (let n = from; n > 0; n--) stream.send(n);
    stream.end("done");
  }
}

const systems = useSystems();
let host: string;
beforeAll(async () => {
  host = new URL((await systems.start({ agents: { CounterAgent } })).url).host;
});

const pages: Page[] = [];
afterEach(() => {
  for (const page of pages.splice(0)) page.close();
});

describe.each<[string, Hook]>([
  ["our-hook", useAgent],
  ["the-reference's-hook", reference.useAgent as unknown as Hook],
])("%s with our server", (name, hook) => {
  it("lets two components on one agent see each other's changes; calls and streams work", async () => {
    const page = new Page(hook, host);
    pages.push(page);
    const options = { agent: "CounterAgent", name };
    const show = ({ name: at, state, identified }: AnyAgent) => (identified ? [at, state] : []);
    const one = await page.mount(options, { show });
    const two = await page.mount(options, { show });
    await Promise.all([one, two].map((each) => each.shows(`["${name}",{"count":0}]`)));
    one.agent.setState({ count: 5 });
    await Promise.all([one, two].map((each) => each.shows(`["${name}",{"count":5}]`)));
    expect(await two.agent.call("increment", [2])).toBe(7);
    await Promise.all([one, two].map((each) => each.shows(`["${name}",{"count":7}]`)));
    const chunks: unknown[] = [];
    const onChunk = (n: unknown) => chunks.push(n);
    expect(await one.agent.call("countdown", [2], { stream: { onChunk } })).toBe("done");
    expect(chunks).toEqual([2, 1]);
  });
});

/** Never runs: only its types matter. */
function compiled(): void {
  const typed = useAgent<CounterAgent>({
    agent: "CounterAgent",
    onStateUpdate: (state) => expectTypeOf(state).toEqualTypeOf<CounterState>(),
  });
  expectTypeOf(typed.state).toEqualTypeOf<CounterState | undefined>();
  expectTypeOf(typed.call("increment", [1])).toEqualTypeOf<Promise<number>>();
  expectTypeOf(typed.stub.countdown(1)).toEqualTypeOf<Promise<string | undefined>>();
  expectTypeOf(typed.path).toEqualTypeOf<
    ReadonlyArray<{ readonly agent: string; readonly name: string }>
  >();
  // @ts-expect-error: not the agent's state
  typed.setState({ count: "many" });
  // @ts-expect-error: no such method
  void typed.stub.missing();
  // @ts-expect-error: the class must be named
  useAgent<CounterAgent>({ name: "x" });

  const both = useAgent<CounterAgent, CounterState>({ agent: "counter-agent" });
  expectTypeOf(both.state).toEqualTypeOf<CounterState | undefined>();
  const stateOnly = useAgent<CounterState>({ agent: "counter-agent" });
  expectTypeOf(stateOnly.state).toEqualTypeOf<CounterState | undefined>();
  void stateOnly.call("any", [1]);
  void stateOnly.stub["any"]?.(1);
  const inferred = useAgent({
    agent: "counter-agent",
    query: async () => ({ token: "t" }),
    onStateUpdate: (_state: CounterState) => undefined,
  });
  expectTypeOf(inferred.state).toEqualTypeOf<CounterState | undefined>();
}

describe("useAgent's types", () => {
  it("have the agent's state and methods, and nothing else", () => {
    expectTypeOf(compiled).toBeFunction();
  });
});
