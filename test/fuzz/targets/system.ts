/** A gateway and a host over a real nats-server: any webhook bodies, any messages of sockets. */
import { createHmac, randomUUID } from "node:crypto";
import { connect } from "node:net";
import { Agent, callable, type Connection } from "agents";
import { body, github, webhook } from "agents/webhooks";
import { startNats } from "../../kit/natsServer.ts";
import { startSystem } from "../../kit/system.ts";
import { exchange } from "../exchange.ts";
import { Broken, choose, joined, partsOf, type FuzzTarget } from "../Target.ts";
import { frame, UPGRADE_HEADERS } from "../webSocket.ts";

const SECRET = "secret";

class AnythingAgent extends Agent<unknown, { readonly n: number }> {
  static override options = { http: "open", hibernateAfterSeconds: 1 };
  override initialState = { n: 0 };
  @callable()
  echo(...args: ReadonlyArray<unknown>): unknown {
    return args;
  }
  override onMessage(connection: Connection, message: string | ArrayBuffer): void {
    connection.send(typeof message === "string" ? `got ${message.length}` : "got bytes");
  }
  override onError(): void {
    // Invalid messages of clients are answered, and the agent continues.
  }
  override async onRequest(request: Request): Promise<Response> {
    await request.text();
    return new Response("OK");
  }
}

async function open() {
  const nats = await startNats();
  const system = await startSystem({
    nats: nats.url,
    shards: 2,
    module: {
      agents: { AnythingAgent },
      env: { SECRET },
      webhooks: [
        webhook("/webhooks/:kind", {
          agent: "AnythingAgent",
          verify: github({ secret: "SECRET" }),
          entity: body("agent"),
        }),
      ],
    },
  });
  const { port } = new URL(system.url);
  const dial = () => connect(Number(port), "127.0.0.1");

  const deliver = async (input: Uint8Array): Promise<void> => {
    const [type, raw] = partsOf(input, 2) as [Buffer, Buffer];
    const signature = createHmac("sha256", SECRET).update(raw).digest("hex");
    const head = `POST /webhooks/any HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: ${raw.length}\r\nContent-Type: ${type.toString("latin1").replace(/[^\x20-\x7e]/g, "")}\r\nX-Hub-Signature-256: sha256=${signature}\r\nX-GitHub-Delivery: ${randomUUID()}\r\n\r\n`; // prettier-ignore
    const said = await exchange(dial(), Buffer.concat([Buffer.from(head), raw]), { open: true });
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(said)?.[1]);
    if (!(status < 500) || status === 401) throw new Broken(`answered ${said.slice(0, 300)}`);
  };
  const talk = async (input: Uint8Array): Promise<void> => {
    const upgrade = `GET /agents/anything-agent/one HTTP/1.1\r\n${UPGRADE_HEADERS}\r\n`;
    await exchange(dial(), Buffer.concat([Buffer.from(upgrade), input]));
  };
  const NEXT = "POST /agents/anything-agent/one HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"; // prettier-ignore
  return {
    run: async (input: Uint8Array) => {
      await ((input[0] ?? 0) % 2 === 0 ? deliver : talk)(input.subarray(1));
      const next = await exchange(dial(), Buffer.from(NEXT), { open: true });
      if (!/^HTTP\/1\.1 200[^]*OK$/.test(next)) throw new Broken(`the next request: ${next.slice(0, 300)}`);
    },
    close: async () => {
      await system.stop();
      await nats.stop();
    },
  };
} // prettier-ignore

export const systemTarget: FuzzTarget = {
  name: "system",
  seeds: [
    choose(0, joined("application/json", '{"agent":"one","n":1}')),
    choose(0, joined("application/x-www-form-urlencoded", "payload=%7B%22agent%22%3A%22a%22%7D")),
    choose(1, Buffer.concat([frame(0x81, '{"type":"rpc","id":"1","method":"echo","args":[7]}'), frame(0x81, '{"type":"cf_agent_state","state":{"n":2}}'), frame(0x88, "")])),
    choose(1, Buffer.concat([frame(0x82, "\u0000"), frame(0x01, "a"), frame(0x80, "b"), frame(0x89, "")])),
  ],
  words: ['"agent":', "..", "é", "*", ">", "\\u0000", "=2E", "payload=", '"method":"constructor"', '"method":"setState"', '"__proto__"', "\x81\x85\0\0\0\0"],
  open,
}; // prettier-ignore
