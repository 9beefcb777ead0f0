/** Joins a control process with the leases of its installation, over a separate connection. */
import * as Context from "effect/Context";
import * as Layer from "effect/Layer";
import { layer as connectionLayer } from "../nats/client/NatsConnection.ts";
import { makeNatsLeases } from "../nats/NatsLeases.ts";
import { Nats } from "../nats/client/Nats.ts";
import { layer as natsLayer } from "../nats/setup/openNats.ts";
import { natsOptions } from "./joinNats.ts";
import { openScoped } from "./openScoped.ts";
import type { OpenLeases } from "../workers/serveLeases.ts";
import type { LeasesSettings } from "./Joins.ts";

/** Rejects with an `OpenError` or `BrokerUnavailable`. */
export async function openLeases({ target, role, log }: LeasesSettings): Promise<OpenLeases> {
  const options = natsOptions(target, role, log);
  const layer = natsLayer(options).pipe(Layer.provide(connectionLayer(options)));
  const { opened, close } = await openScoped(Layer.build(layer));
  return { leases: makeNatsLeases(Context.get(opened, Nats)), close };
}
