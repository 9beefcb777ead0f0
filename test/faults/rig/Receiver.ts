/** Takes the webhooks that agents send, and refuses some: what arrived, under which key. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Random } from "../../sim/rig/Random.ts";

export interface Received {
  readonly key: string;
  readonly agent: string;
  readonly id: string;
}

/** This many are answered with 500, and are sent again. */
const REFUSED_SHARE = 0.2;

export async function openReceiver(random: Random) {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { agent, id } = JSON.parse(Buffer.concat(chunks).toString()) as Omit<Received, "key">;
      received.push({ key: String(request.headers["idempotency-key"]), agent, id });
      response.statusCode = random.chance(REFUSED_SHARE) ? 500 : 204;
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    received,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
