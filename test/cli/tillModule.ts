/** The module of the tests of `agents dev --from`: an agent that acts on the world in every way. */
import { createSocket } from "node:dgram";
import { get } from "node:http";
import { Agent } from "agents";
import { body, github, slug, webhook } from "agents/webhooks";

export interface TillState {
  readonly sold: ReadonlyArray<string>;
  /** The errors that kept the laptop's calls from leaving it. */
  readonly kept: ReadonlyArray<string>;
}

interface TillEnv {
  readonly API: string;
  /** A UDP port of the world. */
  readonly PORT: string;
  readonly LAPTOP?: string;
}

export class Till extends Agent<TillEnv, TillState> {
  static override options = { retry: { maxAttempts: 1 }, allowPrivateHosts: true };
  override initialState: TillState = { sold: [], kept: [] };

  override async onRequest(request: Request): Promise<Response> {
    const { item } = (await request.json()) as { item: string };
    const { API, LAPTOP } = this.env;
    const price = await this.step("price", async () => (await fetch(`${API}/price`)).text());
    const receipt = await this.fetch(`${API}/receipt`, { method: "POST", body: item });
    // The bug that the laptop's code has no more.
    if (item === "broken" && LAPTOP === undefined) throw new Error("it can't be sold");
    const sold = `${item} ${price} ${await receipt.text()}${LAPTOP === undefined ? "" : " here"}`;
    const kept = LAPTOP !== undefined && item === "leave" ? await this.leave() : this.state.kept;
    this.setState({ sold: [...this.state.sold, sold], kept });
    await this.sendWebhook(`${API}/sold`, { item });
    return new Response("OK");
  }

  /** Calls of the next release. */
  private async leave(): Promise<ReadonlyArray<string>> {
    const { API, PORT } = this.env;
    const datagrams = createSocket("udp4");
    const calls: ReadonlyArray<Promise<unknown>> = [
      fetch(`${API}/fetch`),
      new Promise((done, failed) => get(`${API}/get`, done).once("error", failed)),
      new Promise((done, failed) =>
        datagrams.send("x", Number(PORT), "127.0.0.1", (error) =>
          error === null ? done("sent") : failed(error),
        ),
      ),
      this.step("new", async () => "made"),
      this.fetch(`${API}/new`),
    ];
    const kept = (await Promise.allSettled(calls)).map((call) =>
      call.status === "fulfilled" ? "it left" : (call.reason as Error).name,
    );
    datagrams.close();
    return kept;
  }
}

export default {
  webhooks: [
    webhook("/hook", {
      agent: Till,
      verify: github({ secret: "SECRET" }),
      entity: body("repository.full_name", slug),
    }),
  ],
};
