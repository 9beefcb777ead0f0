/** Processes that are asked to stop while the broker does not answer what they start with. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { Installation } from "../kit/Installation.ts";

const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
const MODULE = fileURLToPath(new URL("../faults/ledgerModule.ts", import.meta.url));

let installation: Installation | undefined;
const sockets = new Set<Socket>();
let server: Server;
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  server?.close();
  await installation?.kill();
});

/** The network to the broker, which passes nothing more once a process asks for the leases. */
async function linkUntilWatch(to: string): Promise<{ url: string; silent: Promise<void> }> {
  let isSilent = false;
  let fellSilent: () => void;
  const silent = new Promise<void>((resolve) => (fellSilent = resolve));
  server = createServer((client) => {
    const broker = connect(Number(new URL(to).port), "127.0.0.1");
    for (const [from, into] of [[client, broker], [broker, client]] as const) {
      sockets.add(from);
      from.on("error", () => undefined);
      from.on("close", () => into.destroy());
      from.on("data", (data) => {
        isSilent ||= data.includes("CONSUMER.CREATE.KV_agents_LEASES");
        if (isSilent) fellSilent();
        else into.write(data);
      });
    } // prettier-ignore
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { url: `nats://127.0.0.1:${(server.address() as AddressInfo).port}`, silent };
}

test.each(["gateway", "host"])("a %s that is stopped while it starts ends", async (role) => {
  installation = await Installation.start({ shards: 2, gateway: false });
  const { url, silent } = await linkUntilWatch(installation.nats.url);
  const args = [role, MODULE, "--nats", url, "--data", installation.pathOf(role)];
  const ports = ["--admin-port", "0", ...(role === "gateway" ? ["--port", "0"] : [])];
  const child = spawn(process.execPath, [MAIN, ...args, ...ports], {
    env: { PATH: process.env["PATH"] ?? "", SECRET: "secret" },
    stdio: "ignore",
  });
  try {
    await silent;
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([0, null]);
  } finally {
    child.kill("SIGKILL");
  }
});
