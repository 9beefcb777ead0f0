/** Sockets that a module's own `fetch` accepts, without an agent or a Durable Object. */
import { beforeAll, expect, test } from "vitest";
import type { ObjectSocket } from "../../core/socket/ObjectSocket.ts";
import WebSocket from "ws";
import { pollUntil } from "../kit/poll.ts";
import { TestSocket, useSystems } from "../system/kit.ts";

declare const WebSocketPair: new () => { readonly 0: ObjectSocket; readonly 1: ObjectSocket };

const closes: unknown[] = [];

async function fetch(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  const { 0: client, 1: server } = new WebSocketPair();
  if (pathname !== "/forgotten") {
    server.accept();
    server.addEventListener("message", ({ data }) => {
      if (data === "bye") server.close(4000, "as you wish");
      else if (data === "fail") throw new Error("this listener fails");
      else if (data instanceof ArrayBuffer) server.send(new Uint8Array(data).toReversed());
      else server.send(`echo ${data}`);
    });
    server.addEventListener("close", ({ code, reason, wasClean }) =>
      closes.push([code, reason, wasClean, server.readyState]),
    );
    server.send("welcome");
  }
  if (pathname === "/early") server.close(4001, "at once");
  const headers: HeadersInit = pathname === "/spoken" ? { "sec-websocket-protocol": "chat" } : {};
  return new Response(null, { status: 101, webSocket: client, headers } as ResponseInit);
}

const systems = useSystems();
let system: Awaited<ReturnType<typeof systems.start>>;
beforeAll(async () => {
  system = await systems.start({ agents: {}, fetch });
});
const open = (path: string) => TestSocket.open(`${system.url}${path}`);
const told = (close: readonly unknown[]) =>
  pollUntil("the module is told", () => closes.some((each) => JSON.stringify(each) === JSON.stringify(close)) || { done: false, saw: closes }); // prettier-ignore

test("a module's socket delivers what was sent before it opened, then the answers: text and bytes, in order", async () => {
  const ada = await open("/");
  for (const message of ["one", Buffer.from([1, 2, 255]), "two"]) ada.socket.send(message);
  expect(await ada.first(4)).toEqual(["welcome", "echo one", Buffer.from([255, 2, 1]), "echo two"]);
  ada.socket.close(4002, "enough");
  await told([4002, "enough", true, 3]);
});

test("the module can close its socket, and is notified of a close", async () => {
  const ada = await open("/");
  ada.socket.send("bye");
  await ada.until("it is closed", () => ada.closed !== undefined);
  expect(ada.closed).toEqual({ code: 4000, reason: "as you wish" });
  await told([4000, "as you wish", true, 3]);
  const early = await open("/early");
  await early.until("it is closed", () => early.closed !== undefined);
  expect([early.frames, early.closed]).toEqual([["welcome"], { code: 4001, reason: "at once" }]);
});

test("a socket survives a listener that throws", async () => {
  const ada = await open("/");
  ada.socket.send("fail");
  ada.socket.send("on");
  expect(await ada.first(2)).toEqual(["welcome", "echo on"]);
  ada.socket.close();
});

test("a socket is not opened if the module has not accepted its end, or none was requested", async () => {
  expect((await open("/forgotten")).refused).toMatchObject({ status: 500 });
  const plain = await globalThis.fetch(`${system.url}/`);
  expect([plain.status, await plain.text()]).toEqual([426, expect.stringMatching(/WebSocket/)]);
});

test("a client that exceeds its rate is closed with 1013, as one of an agent, and the module is told", async () => {
  const frames = { perSecond: 100, burst: 200 };
  const limited = await systems.start(
    { agents: {}, fetch },
    { gateway: { socketRates: { frames } } as never },
  );
  const ada = await TestSocket.open(`${limited.url}/limited`);
  for (let i = 0; i < 1_000; i++) ada.socket.send("more");
  await ada.until("it is closed", () => ada.closed !== undefined);
  expect(ada.closed?.code).toBe(1013);
  expect(ada.closed?.reason).toContain("--frames-per-socket");
  expect(ada.frames.length).toBeLessThan(1_000);
  await told([1013, ada.closed?.reason, true, 3]);
  await limited.stop();
});

test("the subprotocol of the module's response is the socket's, if the client has offered it", async () => {
  const spoken = async (...offered: string[]): Promise<string> => {
    const socket = new WebSocket(`${system.url.replace("http", "ws")}/spoken`, offered);
    await new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject));
    socket.close();
    return socket.protocol;
  };
  expect(await spoken("mail", "chat")).toBe("chat");
  expect(await spoken()).toBe("");
  await expect(spoken("mail")).rejects.toThrow("Server sent no subprotocol");
});
