/**
 * Which requests of a client the running code answers. The SDK's transport makes a stream's id
 * after it has read the requests, and does not name them to the event store, which asks here.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { RequestId } from "@modelcontextprotocol/sdk/types.js";

export interface Requests {
  readonly ids: ReadonlyArray<RequestId>;
  /** The stream that answers them, once its first event is stored. */
  stream?: string;
}

// One store per process: the event store is called by the SDK, without a handle.
const context = new AsyncLocalStorage<Requests>();

export const requestsOfContext = (): Requests | undefined => context.getStore();

export const withRequests = <A>(requests: Requests, f: () => A): A =>
  requests.ids.length === 0 ? context.exit(f) : context.run(requests, f);
