/** Inputs that run in memory for an operator: what is said about code that can't do them. */
import { expect, it } from "vitest";
import { Agent } from "agents";
import { agentId } from "../../schemas/Address.ts";
import { readModule } from "../../services/module/readModule.ts";
import { rerunEvent } from "../../services/testing/rerunEvent.ts";

class Desk extends Agent<{ MODEL_URL?: string }, { answer: string }> {
  static override options = { retry: { maxAttempts: 1 } };
  override onStart(): void {
    if (this.env.MODEL_URL === undefined) throw new Error("MODEL_URL is not set");
  }
  override async onRequest(): Promise<Response> {
    const response = await fetch(this.env.MODEL_URL!);
    return new Response(await response.text());
  }
}

const rerun = (env: Record<string, unknown>) =>
  rerunEvent(
    { module: readModule({ Desk }, "server.ts"), env },
    {
      id: agentId("Desk", "a"),
      before: undefined,
      inputs: [
        {
          head: { key: "hook:1", kind: "webhook", time: 0, url: "http://h/", method: "POST" },
          body: new Uint8Array(),
          attempts: 0,
          steps: [],
        },
      ],
    },
  );

it("an input that does not end says what its agent failed with", async () => {
  await expect(rerun({})).rejects.toThrow(
    /^Error: MODEL_URL is not set: the end of all open work did not come .* 1 input in the inbox/,
  );
});

it("a request outside of a step says that only steps have recorded answers", async () => {
  const ran = await rerun({ MODEL_URL: "http://model/" });
  expect(ran.errors).toEqual([
    "TypeError: fetch GET http://model/: nothing is sent here, and only steps (this.step, this.fetch) have recorded answers",
  ]);
  expect(ran.sends).toEqual([{ kind: "fetch", method: "GET", url: "http://model/" }]);
  await ran.close();
});
