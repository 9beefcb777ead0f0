/** Agents that call each other without end (`core/call/callDepth`). */
import { beforeAll, expect, test } from "vitest";
import { Agent, callable, getAgentByName, routeAgentRequest, type AgentNamespace } from "agents";
import { CALL_DEPTH_MAX } from "../../core/call/callDepth.ts";
import { useSystems, type System } from "../system/kit.ts";

interface Env {
  readonly Link: AgentNamespace<Link>;
}

class Link extends Agent<Env> {
  @callable({ durable: true })
  async followStored(links: number): Promise<string> {
    if (links === 0) return "end";
    const next = await getAgentByName(this.env.Link, this.name === "a" ? "b" : "a");
    return next.followStored(links - 1);
  }

  override async onRequest(request: Request): Promise<Response> {
    const { searchParams } = new URL(request.url);
    try {
      const links = Number(searchParams.get("links"));
      const isStored = searchParams.has("stored");
      return new Response(await (isStored ? this.followStored(links) : this.follow(links)));
    } catch (error) {
      return new Response(`${(error as Error).name}: ${(error as Error).message}`, { status: 508 });
    }
  }

  /** `links` more agents are called, by turns the one and the other. */
  async follow(links: number): Promise<string> {
    if (links === 0) return "end";
    const next = await getAgentByName(this.env.Link, this.name === "a" ? "b" : "a");
    return next.follow(links - 1);
  }
}

const systems = useSystems();
let system: System;
beforeAll(async () => {
  const fetch = async (request: Request, env: object): Promise<Response> =>
    (await routeAgentRequest(request, env)) ?? new Response(null, { status: 404 });
  system = await systems.start({ agents: { Link }, fetch });
});

const follow = async (links: number, how = "") => {
  const answer = await fetch(`${system.url}/agents/link/a?links=${links}${how}`);
  return [answer.status, await answer.text()];
};

test("a chain of calls ends at the depth limit with an error that names the agent", async () => {
  expect(await follow(CALL_DEPTH_MAX)).toEqual([200, "end"]);
  const tooDeep = `CallTooDeep: Link/b was not called: ${CALL_DEPTH_MAX} agents wait for this call, each for the next. Do two of them call each other without end?`;
  expect(await follow(CALL_DEPTH_MAX + 1)).toEqual([508, tooDeep]);
  expect(await follow(1_000_000)).toEqual([508, tooDeep]);
  expect(await follow(1)).toEqual([200, "end"]);
});

test("durable calls count, too", async () => {
  expect(await follow(CALL_DEPTH_MAX, "&stored")).toEqual([200, "end"]);
  const [status, text] = await follow(CALL_DEPTH_MAX + 1, "&stored");
  expect([status, text]).toEqual([508, expect.stringContaining("was not called: 32 agents wait")]);
});
