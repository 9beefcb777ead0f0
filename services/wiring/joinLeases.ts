/** Joins a control process with the leases of its installation, over a separate connection. */
import * as Context from "effect/Context";
import * as Effect from "effect/Effect";
import * as Exit from "effect/Exit";
import * as Layer from "effect/Layer";
import * as Scope from "effect/Scope";
import { layer as connectionLayer } from "../nats/client/NatsConnection.ts";
import { makeNatsLeases } from "../nats/NatsLeases.ts";
import { Nats } from "../nats/client/Nats.ts";
import { layer as natsLayer } from "../nats/setup/openNats.ts";
import { natsOptions } from "./joinNats.ts";
import type { OpenLeases } from "../workers/serveLeases.ts";
import type { LeasesSettings } from "./Joins.ts";

/** Rejects with an `OpenError` or `BrokerUnavailable`. */
export async function openLeases({ target, role, log }: LeasesSettings): Promise<OpenLeases> {
  const scope = Effect.runSync(Scope.make());
  const close = () => Effect.runPromise(Scope.close(scope, Exit.void));
  const options = { ...natsOptions(target, role), log };
  const layer = natsLayer(options).pipe(Layer.provide(connectionLayer(options)));
  try {
    const context = await Effect.runPromise(Layer.build(layer).pipe(Scope.provide(scope)));
    return { leases: makeNatsLeases(Context.get(context, Nats)), close };
  } catch (error) {
    await close();
    throw error;
  }
}
