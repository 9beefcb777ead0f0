/** More connections than a gateway may have files open: those past its room are closed. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectionRoom, openFilesMax } from "../../services/node/connectionRoom.ts";
import { RawClient } from "../http/kit.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";

const MODULE = fileURLToPath(new URL("./killerModule.ts", import.meta.url));
const OPEN_FILES = 200;
/** Starts and polls on a busy machine. */
const TEST_TIMEOUT_MS = 300_000;
const POLL_TIMEOUT_MS = 90_000;

const HANDSHAKE =
  "GET /agents/killer/crowd HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

let installation: Installation;
let gateway: AgentsProcess;
beforeAll(async () => {
  installation = await Installation.start({ shards: 4, module: MODULE, gateway: false });
  const host = await installation.startHost("host-1");
  gateway = await installation.startGateway({ openFiles: OPEN_FILES });
  await Promise.all([host.ready(), gateway.ready()]);
}, TEST_TIMEOUT_MS);
afterAll(() => installation?.stop(), TEST_TIMEOUT_MS);

const settled = (client: RawClient): boolean => client.closed || client.text.includes(" 101 ");

test(
  "connections that a gateway's open files leave no room for are closed, and the others are served",
  async () => {
    const port = Number(new URL(gateway.url).port);
    const clients: RawClient[] = [];
    try {
      for (let n = 0; n < 2 * OPEN_FILES; n += 1) {
        const client = await RawClient.connect(port);
        clients.push(client.send(HANDSHAKE));
        await pollUntil("the connection is a socket, or closed", () => settled(client), {
          timeoutMs: POLL_TIMEOUT_MS,
        });
      }
      const sockets = clients.filter(({ closed }) => !closed);
      expect(sockets.length).toBe(connectionRoom(OPEN_FILES));
      await gateway.ready();
      sockets[0]!.socket.destroy();
      await pollUntil("there is room for a request", () =>
        fetch(`${gateway.url}/agents/killer/crowd`).then(({ ok }) => ok, () => false),
      ); // prettier-ignore
    } finally {
      for (const client of clients) client.socket.destroy();
    }
  },
  TEST_TIMEOUT_MS,
);

test("a gateway's log says how many connections its open files allow", () => {
  const line = gateway.lines.find(({ message }) => message.includes("limit of open files"));
  expect(line).toMatchObject({ level: "info", connections: connectionRoom(OPEN_FILES), openFiles: OPEN_FILES }); // prettier-ignore
});

test("the room is an eighth less than the files, at least 64 less, and never nothing", () => {
  expect([20_000, 512, 200, 65, 10].map(connectionRoom)).toEqual([17_500, 448, 136, 1, 1]);
});

test("the limit of open files is read where the system tells it", () => {
  expect(openFilesMax("Max open files            1024                 524288               files     \n")).toBe(1024); // prettier-ignore
  expect(openFilesMax("Max open files            unlimited            unlimited            files     \n")).toBeUndefined(); // prettier-ignore
  expect(openFilesMax("")).toBeUndefined();
});
