/** A host that stops, or hands a shard over, while one of its agents is in a long turn. */
import { expect, test } from "vitest";
import { Agent } from "agents";
import { body, github, webhook } from "agents/webhooks";
import { makeLatch, postGithub, SECRET, useSystems } from "../system/kit.ts";

/** Together longer than a turn that is short. */
const PACE_MS = 30;

const started = makeLatch();
const over = makeLatch();

class Worker extends Agent<unknown, { readonly pushes: number }> {
  override initialState = { pushes: 0 };

  override async onRequest() {
    if (this.name === "long") {
      started.open();
      await over.opened;
    }
    this.setState({ pushes: this.state.pushes + 1 });
    return Response.json(this.state);
  }
}

const systems = useSystems();

test("while a long turn runs, the other agents of its shard are served", async () => {
  const verify = github({ secret: { value: SECRET } });
  const webhooks = [
    webhook("/webhooks/github", {
      agent: Worker,
      verify,
      entity: body("agent"),
      deadlineMs: 5_000,
    }),
  ];
  const system = await systems.start({ agents: { Worker }, webhooks }, { shards: 1 });
  const post = (agent: string) => postGithub(`${system.url}/webhooks/github`, { agent });
  const long = post("long");
  await started.opened;
  let stopped = false;
  const stopping = system.host.stop().then(() => (stopped = true));
  for (let pushes = 1; pushes <= 20; pushes++) {
    expect(await post("other")).toMatchObject({ status: 200, text: JSON.stringify({ pushes }) });
    await new Promise((resolve) => setTimeout(resolve, PACE_MS));
  }
  expect(stopped).toBe(false);
  over.open();
  expect((await long).status).toBe(200);
  await stopping;
});
