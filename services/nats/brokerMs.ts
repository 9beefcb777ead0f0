/** Reads the clock of the broker, which stamps all that is stored: that of the journal's leader. */
import { unavailable } from "./client/JetStreamApi.ts";
import type { NatsShape } from "./client/Nats.ts";

/** Milliseconds since the epoch. Rejects with `BrokerUnavailable`. */
export async function brokerMs({ subjects, api }: NatsShape): Promise<number> {
  const [stream] = subjects.streamsOf("journal");
  try {
    const { ts } = await api.call<{ readonly ts: string }>(`STREAM.INFO.${stream}`);
    return new Date(ts).getTime();
  } catch (error) {
    throw unavailable(error);
  }
}
