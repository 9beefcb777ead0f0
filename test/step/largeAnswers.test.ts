/** Answers of `this.fetch` past the broker's payload limit, on a real nats-server. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Agent } from "agents";
import { body, unsigned, webhook } from "agents/webhooks";
import { pollUntil } from "../kit/poll.ts";
import { journalOf, useSystems } from "../system/kit.ts";

/** The largest body that is kept, and that of a broker's message. */
const [ANSWER_BYTES, PAYLOAD_BYTES] = [8 * 1024 * 1024, 1024 * 1024];

const systems = useSystems({ maxPayload: PAYLOAD_BYTES });
const server = createServer((_request, response) => response.end("x".repeat(ANSWER_BYTES)));
beforeAll(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)));
afterAll(() => void server.close());

class Reader extends Agent<{}, { length: number }> {
  override initialState = { length: 0 };
  override async onRequest(): Promise<Response> {
    const { port } = server.address() as AddressInfo;
    const answer = await this.fetch(`http://127.0.0.1:${port}/`);
    this.setState({ length: (await answer.text()).length });
    return new Response("OK");
  }
}

test("a response past the payload limit is stored with its turn, which continues", async () => {
  const route = webhook("/w", { agent: Reader, verify: unsigned(), entity: body("for", { trust: true }) }); // prettier-ignore
  const { url, options } = await systems.start({ agents: { Reader }, webhooks: [route] });
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/w`, { method: "POST", body: '{"for":"a"}', headers });
  expect(response.ok).toBe(true);
  const heads = await pollUntil("its turn is done", async () => {
    const all = await journalOf(options, "Reader", "a");
    return all.some(({ turns }) => turns.some(({ done }) => done !== undefined)) && all;
  });
  const answers = heads.flatMap(({ turns }) => turns.flatMap(({ steps = [] }) => steps));
  const lengths = answers.map(({ result }) => (result as { readonly body: string }).body.length);
  expect(lengths).toEqual([ANSWER_BYTES]);
});
