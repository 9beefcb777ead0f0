/** Sockets of Durable Objects over real WebSockets, hibernation included. */
import { beforeAll, describe, expect, test } from "vitest";
import type { ObjectNamespace } from "../../core/durableObject/ObjectNamespace.ts";
import { pollUntil } from "../kit/poll.ts";
import { TestSocket, useSystems, type System } from "../system/kit.ts";
import { objectsModule } from "./kit.ts";
import type { Live, Room } from "./objectsModule.ts";

const systems = useSystems();
let system: System;
let env: { readonly Room: ObjectNamespace<Room>; readonly Live: ObjectNamespace<Live> };
beforeAll(async () => {
  system = await systems.start(objectsModule());
  env = system.gateway.env as unknown as typeof env;
});

const open = (path: string) => TestSocket.open(system.url + path);
/** What the socket is answered, one message after the other. */
async function ask(socket: TestSocket, ...messages: unknown[]): Promise<unknown[]> {
  const before = socket.frames.length;
  for (const message of messages) socket.send(message);
  return (await socket.first(before + messages.length)).slice(before);
}

describe("a socket that is accepted for hibernation", () => {
  test("receives what fetch sent first, then the answers to its messages, in order", async () => {
    const ada = await open("/room/order?name=ada");
    expect(await ada.first(1)).toEqual(["welcome ada"]);
    expect(await ask(ada, "one", "two")).toEqual(["echo one", "echo two"]);
    expect(await ask(ada, Uint8Array.from([1, 2, 255]))).toEqual([Buffer.from([255, 2, 1])]);
    await ada.close();
  });

  test("delivers every message unchanged, including ones that look like the agents' protocol", async () => {
    const socket = await open("/room/frames?name=x");
    await socket.first(1);
    const frames = [`{"type":"cf_agent_state","state":{"a":1}}`, `{"type":"rpc","id":"1","method":"closes","args":[]}`]; // prettier-ignore
    expect(await ask(socket, ...frames)).toEqual(frames.map((frame) => `echo ${frame}`));
    await socket.close();
  });

  test("is found by its tags, and can reach the others", async () => {
    const [a, b] = await Promise.all([
      open("/room/tags?name=a&tag=red&tag=blue"),
      open("/room/tags?name=b&tag=red"),
    ]);
    await Promise.all([a.first(1), b.first(1)]);
    expect(await ask(a, "tags", "tagged red", "tagged blue", "tagged none")).toEqual([
      `["red","blue"]`, "2", "1", "0",
    ]); // prettier-ignore
    a.send("others");
    // A slow machine lets the object hibernate in between, which its constructor notes.
    expect((await b.first(2))[1]).toMatch(/^from a( \(again\))?$/);
    await Promise.all([a.close(), b.close()]);
  });

  test("answers a matching message automatically without waking the object", async () => {
    const socket = await open("/room/auto?name=x");
    await socket.first(1);
    expect(await ask(socket, "auto", "ping", "ping", "auto")).toEqual([
      `["ping",false]`, "pong", "pong", `["ping",true]`,
    ]); // prettier-ignore
    await socket.close();
  });

  test("survives eviction of the object, with its attachment", async () => {
    const socket = await open("/room/sleep?name=ada&tag=t");
    await socket.first(1);
    let asked = 1;
    const again = async () => String((await ask(socket, "who"))[0]).includes("again") && ++asked;
    await pollUntil("the object was made again", again, { intervalMs: 600 });
    expect(asked).toBeGreaterThan(1);
    expect(await ask(socket, "attachment", "tags")).toEqual([
      JSON.stringify({ name: "ada", since: new Date(0) }), `["t"]`,
    ]); // prettier-ignore
    expect(await ask(socket, "ping")).toEqual(["pong"]);
    await socket.close();
  });

  test("notifies the object of its close; one closed by the object has the object's code", async () => {
    const [left, sent] = [await open("/room/closes?name=a"), await open("/room/closes?name=b")];
    await left.first(1);
    await left.close(4002, "I leave");
    sent.send("bye");
    await sent.until("it is closed", () => sent.closed !== undefined);
    expect(sent.closed).toEqual({ code: 4000, reason: "as you wish" });
    const room = env.Room.getByName("closes");
    const closes = await pollUntil("the object knows", async () => {
      const known = (await room.closes()) as unknown[][] | undefined;
      const found = known?.find(([code]) => code === 4002);
      return found === undefined ? { done: false, saw: known } : { done: true, value: found };
    });
    expect(closes).toEqual([4002, "I leave", true]);
  });

  test("is closed in fetch with the object's code, after what fetch has sent", async () => {
    const socket = await open("/room/reject?name=x&reject");
    await socket.until("it is closed", () => socket.closed !== undefined);
    expect([socket.frames, socket.closed]).toEqual([["welcome x"], { code: 4001, reason: "not you" }]); // prettier-ignore
  });

  test("is closed when its object aborts", async () => {
    const socket = await open("/room/aborts?name=x");
    await socket.first(1);
    socket.send("abort");
    await socket.until("it is closed", () => socket.closed !== undefined);
    expect(socket.closed).toEqual({ code: 1012, reason: "The object was restarted" });
    expect(await env.Room.getByName("aborts").closes()).toBeUndefined();
  });

  test("survives a handler that throws", async () => {
    const socket = await open("/room/throws?name=x");
    await socket.first(1);
    socket.send("throw");
    expect(await ask(socket, "still")).toEqual(["echo still"]);
    await socket.close();
  });
});

describe("an upgrade that the object does not accept", () => {
  test("is answered by its fetch", async () => {
    const socket = await open("/room/refused");
    expect(socket.refused).toEqual({ status: 403, body: "Who are you?" });
  });

  test("is a plain 500 if fetch throws", async () => {
    const socket = await open("/room/refused?name=x&throw");
    expect(socket.refused).toEqual({ status: 500, body: "Internal Server Error" });
  });
});

test("what an object deletes and sends before it aborts is stored and sent", async () => {
  const [first, socket] = [await open("/room/end?name=a"), await open("/room/end?name=b")];
  await first.close(4123);
  const room = env.Room.getByName("end");
  await pollUntil("the close is stored", async () => (await room.closes()) !== undefined);
  await room.end().catch(() => undefined);
  await socket.until("it is closed", () => socket.closed !== undefined);
  expect(socket.closed).toEqual({ code: 1001, reason: "The room is gone" });
  expect(JSON.stringify((await room.closes()) ?? [])).not.toContain("4123");
});

test("a socket with listeners keeps its object in memory, and notifies it of the close", async () => {
  const socket = await open("/live/a");
  expect(await ask(socket, "x", "y")).toEqual(["1 x", "2 y"]);
  // Longer than an idle object stays in memory.
  await new Promise((resolve) => setTimeout(resolve, 600));
  expect(await ask(socket, "z")).toEqual(["3 z"]);
  await socket.close(4003);
  await pollUntil("the listener was called", async () => {
    const [code, sockets] = await env.Live.getByName("a").closed();
    return (code === 4003 && sockets === 0) || { done: false, saw: [code, sockets] };
  });
});

test("a socket with listeners is closed when its object restarts", async () => {
  const socket = await open("/live/b");
  await ask(socket, "x");
  const live = env.Live.getByName("b");
  await expect(live.abort()).rejects.toThrow(/as the test says/);
  await live.closed();
  await socket.until("it is closed", () => socket.closed !== undefined);
  expect(socket.closed?.code).toBe(1012);
});
