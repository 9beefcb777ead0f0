/**
 * The client of the protocol's own conformance tests: `conformanceClient.ts <gateway> <server>`
 * has an agent of a running installation add the server, go through its authorization if it wants
 * one, and use all of its tools. The scenario is in the environment.
 */
import { AgentClient } from "reference-agents/client";
import WebSocket from "ws";
import { pollUntil } from "../../kit/poll.ts";

interface Added {
  readonly id: string;
  readonly state: string;
  readonly authUrl?: string;
}
interface Offers {
  readonly servers: Readonly<Record<string, { readonly state: string; readonly error: unknown; readonly auth_url: string | null }>>; // prettier-ignore
  readonly tools: ReadonlyArray<{ readonly name: string; readonly inputSchema: object }>;
}

const [gateway, server] = process.argv.slice(2) as [string, string];
const client = new AgentClient({
  agent: "conformance-agent",
  name: crypto.randomUUID(),
  host: new URL(gateway).host,
  WebSocket,
} as unknown as ConstructorParameters<typeof AgentClient>[0]);
const call = <A>(method: string, ...args: ReadonlyArray<unknown>): Promise<A> =>
  client.call(method, [...args]) as Promise<A>;

/** The address that the scenario of metadata documents expects. */
const METADATA_URL = "https://conformance-test.local/client-metadata.json";
const { MCP_CONFORMANCE_SCENARIO: scenario, MCP_CONFORMANCE_CONTEXT: context } = process.env;

try {
  if (scenario === "auth/pre-registration")
    await call("register", { client: JSON.parse(context!) });
  if (scenario === "auth/basic-cimd") await call("register", { metadataUrl: METADATA_URL });
  const { authUrl, id } = await call<Added>("add", "Conformance", server, { id: "it" });
  if (authUrl !== undefined) await authorize(authUrl);
  const { tools } = await ready(id);
  for (const { name, inputSchema } of tools) {
    const use = (): Promise<unknown> => call("call", id, name, argumentsOf(inputSchema));
    const result = await use().catch(async (error: unknown) => {
      // A further scope, which a user would be asked for once.
      const { auth_url } = (await call<Offers>("servers")).servers[id]!;
      if (auth_url === null) throw error;
      await authorize(auth_url);
      await ready(id);
      return use();
    });
    console.log(name, JSON.stringify(result));
  }
} finally {
  client.close();
}
process.exit(0);

/** What the server offers, once it is there. */
function ready(id: string): Promise<Offers> {
  return pollUntil("it is ready", async () => {
    const found = await call<Offers>("servers");
    const { state, error } = found.servers[id]!;
    if (state === "failed") throw new Error(`failed: ${String(error)}`);
    return state === "ready" ? { done: true as const, value: found } : { done: false, saw: found };
  });
}

/** As a user who agrees to everything: each redirect is followed, the last one to the agent. */
async function authorize(url: string): Promise<void> {
  const response = await fetch(url);
  console.log("authorized", response.status, await response.text());
}

/** A number for each number that a tool asks for, and a text for each text. */
function argumentsOf(schema: object): Record<string, unknown> {
  const { properties = {} } = schema as {
    readonly properties?: Readonly<Record<string, { readonly type?: string }>>;
  };
  return Object.fromEntries(
    Object.entries(properties).map(([name, { type }]) => [name, type === "string" ? "text" : 2]),
  );
}
