/** The HTTP server that the kill test's turns call. Each answer is unique: repeated ones show. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface Call {
  readonly agent: string;
  readonly step: string;
  /** Empty: it had none. */
  readonly key: string;
  readonly body: string;
  readonly token: string;
}

export interface World {
  readonly url: string;
  readonly calls: Call[];
  stop(): Promise<void>;
}

/** `at`: called where a request is; it is answered when that resolves. */
export async function startWorld(
  at: (agent: string, step: string, via: string) => Promise<void>,
): Promise<World> {
  const calls: Call[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const { pathname, searchParams } = new URL(request.url!, "http://world");
      const [, agent = "", step = ""] = pathname.split("/");
      const via = searchParams.get("via") ?? "";
      let body = "";
      for await (const piece of request) body += String(piece);
      const token = `token-${calls.length + 1}`;
      const key = String(request.headers["idempotency-key"] ?? "");
      calls.push({ agent, step, key, body, token });
      await at(agent, step, via);
      response.end(token);
    })().catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
