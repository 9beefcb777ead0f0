/** What `openReader` opens for a command, over a broker that goes away meanwhile. */
import { afterEach, expect, test, vi } from "vitest";
import { openReader, provisionTarget } from "../../services/wiring/joinReader.ts";
import { startNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";

afterEach(() => void vi.restoreAllMocks());

test("a lost connection is a line on standard error, so that a pipe receives only results", async () => {
  const folder = tempFolder("reader");
  const server = await startNats({ storeDir: folder.path });
  const target = { natsUrl: server.url, namespace: "agents" };
  await provisionTarget(target, { shards: 4, replicas: 1, leaseTtlMs: 5_000 });
  const ports = await openReader(target, { sql: false });
  let out = "";
  let err = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    out += String(text);
    return true;
  });
  vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    err += String(text);
    return true;
  });
  vi.spyOn(console, "log").mockImplementation((...said) => void (out += said.join(" ")));
  try {
    await server.kill();
    await pollUntil("the loss is reported", () => err.includes("broker connection lost"));
    await server.restart();
    await pollUntil("the return is reported", () => err.includes("broker connection restored"));
    expect(out).toBe("");
    expect(err).toMatch(/^\S+ WARN broker connection lost/);
  } finally {
    vi.restoreAllMocks();
    await ports.close();
    await server.stop();
    folder.remove();
  }
});
