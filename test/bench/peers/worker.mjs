/** The counting agent on the reference package, for workerd. Bundled in the peers' folder, where its packages are. */
import { Agent, getAgentByName } from "agents";

const encoder = new TextEncoder();
let key;

async function isSigned(body, signature) {
  key ??= await crypto.subtle.importKey(
    "raw",
    encoder.encode("topsecret"),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["verify"],
  );
  const bytes = Uint8Array.from(signature.slice("sha256=".length).match(/../g), (hex) =>
    parseInt(hex, 16),
  );
  return crypto.subtle.verify("HMAC", key, bytes, encoder.encode(body));
}

export class CountingAgent extends Agent {
  initialState = { count: 0, last: null };

  onStart() {
    this.sql`CREATE TABLE IF NOT EXISTS deliveries (id TEXT PRIMARY KEY, event TEXT, number TEXT)`;
  }

  async onRequest(request) {
    const event = await request.json();
    const id = request.headers.get("x-github-delivery");
    const type = request.headers.get("x-github-event");
    this.sql`INSERT INTO deliveries (id, event, number) VALUES (${id}, ${type}, ${event.number})`;
    this.setState({ count: this.state.count + 1, last: id });
    return new Response("OK");
  }
}

export default {
  async fetch(request, env) {
    if (request.method !== "POST") return new Response("ready");
    const body = await request.text();
    if (!(await isSigned(body, request.headers.get("x-hub-signature-256") ?? "")))
      return new Response("unsigned", { status: 401 });
    const name = new URL(request.url).pathname.split("/").at(-1);
    const agent = await getAgentByName(env.CountingAgent, name);
    return agent.fetch(
      new Request(request.url, { method: "POST", headers: request.headers, body }),
    );
  },
};
