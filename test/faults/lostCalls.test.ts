/** A client's calls whose host is killed: its connection stays open, so it has to find out. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { pollUntil } from "../kit/poll.ts";
import { Installation } from "../kit/Installation.ts";
import { openClient } from "../membership/Callers.ts";

interface RunnerStub {
  forever(): Promise<never>;
  once(): void;
  echo(text: string): string;
}

const MODULE = fileURLToPath(new URL("./runningModule.ts", import.meta.url));
const LOST = "The call was lost with its agent's host; the method may have run";

let installation: Installation;
beforeAll(async () => {
  // The product's own lease: it has to end.
  installation = await Installation.start({ shards: 1, leaseTtlMs: 5_000, module: MODULE });
});
afterAll(() => installation?.stop());

test("calls that ran on a killed host reject, and the connection that carried them serves the next", async () => {
  const first = await installation.startHost("a");
  await installation.shared(1);
  const client = openClient<RunnerStub>(installation.gateway.url, "r", "runner");
  const onClose = vi.fn();
  client.addEventListener("close", onClose);
  try {
    await client.ready;
    const chunks: unknown[] = [];
    const unary = client.call("forever", [], { timeout: 0 });
    const lostUnary = expect(unary).rejects.toThrow(LOST);
    const streamed = client.call("once", [], { stream: { onChunk: (one) => chunks.push(one) } });
    const lostStream = expect(streamed).rejects.toThrow(LOST);
    await pollUntil("the stream has begun", () => chunks.length > 0);
    // The gateway knows by then that the host has taken both: neither is sent again.
    expect(await client.call("echo", ["both run"])).toBe("both run");
    await first.kill();
    await installation.startHost("b");
    expect(await client.call("echo", ["before it knows"])).toBe("before it knows");
    await lostUnary;
    await lostStream;
    expect(chunks).toEqual(["begun"]);
    expect(await client.call("echo", ["after"])).toBe("after");
    expect(onClose).not.toHaveBeenCalled();
  } finally {
    client.close();
  }
});
