/** Another user of the machine reads the list of processes: no password and no token is in it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { withoutSecrets } from "../../services/cli/terminal/commandLineSecrets.ts";
import { pollUntil } from "../kit/poll.ts";

const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));

test("logins in URLs are masked wherever they appear, and nothing else is", () => {
  expect(
    withoutSecrets(["nats://u:p@ss@a:1,tls://token@b", "--smtp-relay=smtps://x:y@z", "http://a/b@c", "a@b"]),
  ).toEqual(["nats://***@a:1,tls://***@b", "--smtp-relay=smtps://***@z", "http://a/b@c", "a@b"]);
}); // prettier-ignore

test("logins in a broker's URLs are masked where the URLs have no scheme", () => {
  const given = ["--nats", "u:p@ss@a:1, token@b,c:1,nats://x:y@d", "--from=u:p@a", "u:p@a", "--nats"];
  const shown = ["--nats", "***@a:1, ***@b,c:1,nats://***@d", "--from=***@a", "u:p@a", "--nats"];
  expect(withoutSecrets(given)).toEqual(shown);
}); // prettier-ignore

test("a running process shows its command line without the login", async () => {
  const silent = createServer((socket) => socket.on("error", () => undefined));
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as AddressInfo;
  const url = `nats://operator:hunter2@127.0.0.1:${port}`;
  const child = spawn(process.execPath, [MAIN, "list", "--nats", url], { stdio: ["ignore", "pipe", "pipe"] }); // prettier-ignore
  let told = "";
  child.stderr.on("data", (text: Buffer) => (told += String(text)));
  try {
    const shown = await pollUntil("the command line is masked", () => {
      const line = readFileSync(`/proc/${child.pid}/cmdline`, "latin1").replaceAll("\0", " ");
      return line.includes("***@") ? line : { done: false as const, saw: line };
    });
    expect(shown).toContain(`list --nats nats://***@127.0.0.1:${port}`);
    expect(shown).not.toContain("hunter2");
    await pollUntil(
      "it says how to pass a login",
      () => told.includes("NATS_URL") || { done: false, saw: told },
    );
    expect(told).not.toContain("hunter2");
  } finally {
    child.kill("SIGKILL");
    await once(child, "close");
    silent.close();
  }
});
