/** The two clients that must behave alike, with the same options: ours and the reference's. */
import * as reference from "reference-agents/client";
import { WebSocket } from "ws";
import { AgentClient, agentFetch, type AgentClientOptions } from "../../services/client/index.ts";

export interface ClientKind {
  readonly AgentClient: typeof AgentClient;
  readonly agentFetch: typeof agentFetch;
}

export const CLIENTS: ReadonlyArray<readonly [name: string, kind: ClientKind]> = [
  ["our client", { AgentClient, agentFetch }],
  ["the reference's client", reference as unknown as ClientKind],
];

/** Untyped: the rules here are of the wire, not of types. */
export type AnyClient = AgentClient<unknown, unknown>;
export type AnyOptions = Partial<AgentClientOptions<unknown>> & { readonly host: string };

/** Reconnects at once, so that no test waits for the usual 3 s. */
export const AT_ONCE = { minReconnectionDelay: 1, maxReconnectionDelay: 5 } as const;

/** Makes clients of one kind, and closes them all. */
export class ClientPool {
  readonly #kind: ClientKind;
  readonly #open: AnyClient[] = [];

  constructor(kind: ClientKind) {
    this.#kind = kind;
  }

  open(options: AnyOptions): AnyClient {
    const client = new this.#kind.AgentClient<unknown, unknown>({
      agent: "RoomAgent",
      WebSocket,
      ...AT_ONCE,
      ...options,
    });
    this.#open.push(client);
    return client;
  }

  close(): void {
    for (const client of this.#open.splice(0)) client.close();
  }
}

/** The state of a promise, to check that it still waits. */
export async function standing(promise: Promise<unknown>): Promise<string> {
  const settled = promise.then(
    () => "resolved",
    (error: unknown) => `rejected: ${error instanceof Error ? error.message : String(error)}`,
  );
  return Promise.race([settled, new Promise<string>((done) => setImmediate(done, "pending"))]);
}
