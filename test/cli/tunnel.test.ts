/** `agents dev --tunnel`: a program's URL, the program's end, and the messages to the user. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { openTunnel, publicUrl } from "../../services/cli/serving/openTunnel.ts";
import { settingsPage } from "../../services/cli/serving/settingsPages.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { pollUntil } from "../kit/poll.ts";
import { runAgents } from "../kit/runAgents.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const open = (script: string, warn: (line: string) => void = () => undefined) =>
  openTunnel({
    tunnel: `"${process.execPath}" -e '${script}' {port} {url}`,
    port: 8787,
    time: machineTime,
    warn,
  });
const STAYS = "setInterval(() => 0, 1000);";

it("only the first URL on its own host counts, not links to documentation or this machine", () => {
  expect(
    publicUrl(`Thank you for trying it. See https://developers.example.com/tunnels/run for terms.
INF |  https://cut-off.trycloudflare.com  | -> http://localhost:8787\n`),
  ).toBe("https://cut-off.trycloudflare.com");
  expect(publicUrl("t=1 msg=started url=https://a1.ngrok-free.app\n")).toBe(
    "https://a1.ngrok-free.app",
  );
  expect(publicUrl("https://box.tail1.ts.net/\n|-- proxy http://127.0.0.1:8787\n")).toBe(
    "https://box.tail1.ts.net",
  );
  expect(publicUrl("listening on https://localhost:8787 \n")).toBeUndefined();
  expect(publicUrl("https://half.exam")).toBeUndefined(); // the rest may follow
  expect(
    publicUrl("see https://docs.example.com?a=1 or https://me@b.example.com \n"),
  ).toBeUndefined();
  for (const around of ["\x1b[32mURL\x1b[0m\n", "`URL`", "At URL.\n", "│URL│", "(URL)", "URL/ \n"])
    expect(publicUrl(around.replace("URL", "https://a.example.com"))).toBe("https://a.example.com");
});

it("the program is run with the local address, and ended afterwards", async () => {
  const tunnel = await open(
    `console.error("https://p" + process.argv[1] + ".example.com ", process.argv[2], process.pid); ${STAYS}`,
  );
  expect(tunnel.url).toBe("https://p8787.example.com");
  await tunnel.close();
});

it("a program that ends without a URL fails the start, with its output", async () => {
  await expect(open(`console.error("no such account"); process.exit(3)`)).rejects.toThrow(
    /printed no public URL: it ended with code 3.*no such account/s,
  );
});

it("a program that ends later is reported", async () => {
  const warnings: string[] = [];
  await open(
    `console.log("https://a.example.com "); setTimeout(() => process.exit(1), 100)`,
    (line) => warnings.push(line),
  );
  await pollUntil("a warning", () => warnings.length > 0 || { done: false, saw: "none" });
  expect(warnings[0]).toContain("Requests to https://a.example.com no longer arrive");
});

it("a URL needs no program, and port 0 needs a number", async () => {
  const tunnel = (given: string, port: number) =>
    openTunnel({ tunnel: given, port, time: machineTime, warn: () => undefined });
  expect((await tunnel("https://dev.example.com/", 0)).url).toBe("https://dev.example.com");
  await expect(tunnel("cloudflared", 0)).rejects.toThrow("Set one with --port");
  for (const given of ["", " ", "https://dev.example.com/path"])
    await expect(tunnel(given, 8787)).rejects.toThrow(`--tunnel "${given}" is neither`);
});

it("a tunnel beside another public URL is refused", async () => {
  const args = ["dev", "server.ts", "--tunnel", "https://dev.example.com"];
  const by = [
    runAgents([...args, "--public-url", "https://hooks.example.com"], {}),
    runAgents(args, { AGENTS_PUBLIC_URL: "https://hooks.example.com" }),
  ];
  for (const { code, err } of await Promise.all(by)) {
    expect(err).toContain("--tunnel and --public-url (AGENTS_PUBLIC_URL)");
    expect(code).toBe(2);
  }
});

it("a port that another program uses is refused before the tunnel opens", async () => {
  const folder = tempFolder("tunnel-taken");
  const [server, opened] = [join(folder.path, "server.ts"), join(folder.path, "opened")];
  writeFileSync(server, "export default {};\n");
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  const port = String((other.address() as AddressInfo).port);
  const tunnel = `"${process.execPath}" -e 'require("fs").writeFileSync("${opened}", "")'`;
  const { code, err } = await runAgents(["dev", server, "--port", port, "--data", join(folder.path, "data"), "--tunnel", tunnel], {}); // prettier-ignore
  expect(err).toBe(
    `agents: 127.0.0.1:${port} is in use by another process: stop it, or choose another port\n`,
  );
  expect([code, existsSync(opened)]).toEqual([1, false]);
  other.close();
  folder.remove();
});

it("every provider has a settings page", () => {
  const folder = new URL("../../services/webhooks/providers/", import.meta.url);
  const names = readdirSync(folder).flatMap((file) =>
    [...readFileSync(new URL(file, folder), "utf8").matchAll(/\bprovider: "([\w-]+)"/g)].map(
      ([, name = ""]) => name,
    ),
  );
  expect(names.length).toBeGreaterThan(25);
  const without = names.filter((name) => settingsPage(name).startsWith("your sender"));
  expect(without.filter((name) => name !== "standard-webhooks")).toEqual([]);
});

it.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
  "a program that has printed no URL yet ends with dev at %s",
  async (signal) => {
    const folder = tempFolder("tunnel");
    writeFileSync(join(folder.path, "server.ts"), "export default {};\n");
    const quiet = `"${process.execPath}" -e 'console.log("pid", process.pid); ${STAYS}' > pid`;
    const args = ["dev", "server.ts", "--data", "data", "--tunnel", quiet];
    const main = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
    const dev = spawn(process.execPath, [main, ...args], { cwd: folder.path, stdio: "ignore" });
    const ended = once(dev, "close");
    const pid = await pollUntil("the program runs", () => {
      const file = join(folder.path, "pid");
      const text = existsSync(file) ? readFileSync(file, "utf8") : "";
      const found = /^pid (\d+)\n/.exec(text)?.[1];
      return found === undefined
        ? { done: false, saw: text }
        : { done: true, value: Number(found) };
    });
    dev.kill(signal);
    await ended;
    await pollUntil("the program has ended", () => {
      try {
        process.kill(pid, 0);
        return { done: false, saw: "it runs" };
      } catch {
        return { done: true, value: true };
      }
    });
    folder.remove();
  },
);
