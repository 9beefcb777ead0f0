/** Sub-agents of a signed class with open sockets: strangers write nothing to the parent. */
import { describe, expect, test } from "vitest";
import { Agent, type AgentNamespace } from "agents";
import { body, github, webhook } from "agents/webhooks";
import { journalOf, SECRET, TestSocket, useSystems } from "../system/kit.ts";

class Child extends Agent {
  async makeBelow(): Promise<void> {
    await this.subAgent(Child, "below");
  }
}
class Repo extends Agent {
  async make(name: string): Promise<void> {
    await (await this.subAgent(Child, name)).makeBelow();
  }
  names(): string[] {
    return this.listSubAgents().map(({ name }) => name);
  }
  override async onBeforeSubAgent(_: Request, { name }: { readonly name: string }): Promise<void> {
    if (name === "made-by-the-hook") await this.subAgent(Child, name);
  }
}
class Plain extends Agent {}

const systems = useSystems();
const start = () =>
  systems.start({
    agents: { Repo, Child, Plain },
    env: { SECRET },
    webhooks: [
      webhook("/hook", { agent: Repo, verify: github({ secret: "SECRET" }), entity: body("name") }),
    ],
  });
const REFUSED = { code: 4404, reason: "Sub-agent connection rejected (404)" };
const REACHED = "reached";

describe("a readonly socket", () => {
  test("reaches the sub-agents that exist, at any depth, and creates none", async () => {
    const system = await start();
    const repo = (system.gateway.env["Repo"] as AgentNamespace<Repo>).getByName("acme");
    await repo.make("kept");
    const before = await journalOf(system.options, "Repo", "acme");
    const open = async (path: string): Promise<unknown> => {
      const socket = await TestSocket.open(`${system.url}/agents/${path}`);
      await socket.until("it ends", () => socket.closed !== undefined || socket.json.length > 0);
      const { closed } = socket;
      await socket.close();
      return closed ?? REACHED;
    };
    expect(await open("repo/acme/sub/child/kept")).toBe(REACHED);
    expect(await open("repo/acme/sub/child/kept/sub/child/below")).toBe(REACHED);
    for (const path of [
      "repo/acme/sub/child/invented",
      "repo/acme/sub/child/kept/sub/child/invented",
      "repo/acme/sub/child/invented/sub/child/below",
      "plain/any/sub/repo/invented",
    ])
      expect(await open(path), path).toEqual(REFUSED);
    expect(await repo.names()).toEqual(["kept"]);
    expect(await journalOf(system.options, "Repo", "acme")).toEqual(before);
    expect(await open("repo/acme/sub/child/made-by-the-hook")).toBe(REACHED);
    expect(await open("plain/any/sub/child/new")).toBe(REACHED);
  });
});
