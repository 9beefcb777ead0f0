/** Sockets that code opens with a stub's `fetch`: in a gateway, and in objects on any host. */
import { beforeAll, describe, expect, test } from "vitest";
import { testAgents } from "agents/testing";
import type { AgentNamespace } from "../../core/namespace/AgentNamespace.ts";
import type { SocketEvent } from "../../core/socket/SocketListeners.ts";
import type { ObjectSocket } from "../../core/socket/ObjectSocket.ts";
import { readModule } from "../../services/module/readModule.ts";
import { pollUntil } from "../kit/poll.ts";
import { startTestHost, type TestModule } from "../kit/system.ts";
import { TestSocket, useSystems } from "../system/kit.ts";
import * as dial from "./dialModule.ts";
import { upgraded, type DialEnv } from "./dialModule.ts";

function dialModule(): TestModule {
  const { agents, fetch } = readModule({ ...dial }, "dialModule.ts");
  return {
    agents: Object.fromEntries(agents) as TestModule["agents"],
    fetch: fetch as NonNullable<TestModule["fetch"]>,
  };
}

const look = <A>(saw: A, done: boolean) =>
  done ? { done: true as const, value: saw } : { done: false as const, saw };

/** An accepted socket, and what it has brought. */
function accepted(socket: ObjectSocket) {
  const events: SocketEvent[] = [];
  socket.accept();
  for (const type of ["message", "error", "close"] as const)
    socket.addEventListener(type, (event) => void events.push(event));
  const shown = () => events.map(({ type, data, code, reason, wasClean }) =>
    type === "message" ? data : type === "close" ? [code, reason, wasClean] : type); // prettier-ignore
  return {
    socket,
    shown,
    first: (count: number) =>
      pollUntil(`${count} events`, () => {
        const saw = shown();
        return look(saw, saw.length >= count);
      }),
  };
}

const systems = useSystems();
let system: Awaited<ReturnType<typeof systems.start>>;
let env: DialEnv;
beforeAll(async () => {
  system = await systems.start(dialModule());
  env = system.gateway.env as unknown as DialEnv;
});
const open = async (name: string, query?: string) =>
  accepted((await upgraded(env.Room.getByName(name), query)).webSocket);

describe("a socket that a module opens", () => {
  test("delivers what the object sent first, then its answers, text and bytes, in order", async () => {
    const response = await upgraded(env.Room.getByName("order"));
    expect([response.status, response.body]).toEqual([101, null]);
    const ada = accepted(response.webSocket);
    for (const message of ["one", Uint8Array.from([1, 2, 255]), "two"]) ada.socket.send(message);
    expect(await ada.first(4)).toEqual([
      "welcome ada", "echo one", Uint8Array.from([255, 2, 1]).buffer, "echo two",
    ]); // prettier-ignore
    ada.socket.close();
  });

  test("keeps U+FEFF at the beginning of a text, both ways", async () => {
    const ada = await open("mark");
    ada.socket.send("\uFEFFrelay \uFEFFmarked");
    expect((await ada.first(2))[1]).toBe("echo \uFEFFrelay \uFEFFmarked");
    ada.socket.send("say \uFEFFfirst");
    expect((await ada.first(3))[2]).toBe("\uFEFFfirst");
    ada.socket.close();
  });

  test("survives eviction of its object, with its attachment", async () => {
    const ada = await open("sleep");
    let asked = 1;
    const again = async () => {
      ada.socket.send("who");
      return String((await ada.first(++asked)).at(-1)).includes("again");
    };
    await pollUntil("the object was made again", again, { intervalMs: 600 });
    ada.socket.close();
  });

  test("is closed by either side, which notifies the other", async () => {
    const ada = await open("close");
    ada.socket.close(4001, "enough");
    expect(ada.socket.readyState).toBe(2);
    expect((await ada.first(1)).at(-1)).toEqual([4001, "enough", true]);
    expect(ada.socket.readyState).toBe(3);
    const bob = await open("close");
    bob.socket.send("bye");
    // The object's own answer is sent after its close, and does not arrive.
    expect(await bob.first(2)).toEqual(["welcome ada", [4000, "as you wish", true]]);
    const told = [[4001, "enough", true], [4000, "as you wish", true]]; // prettier-ignore
    await pollUntil("the object was told", async () => {
      const saw = await env.Room.getByName("close").closes();
      return look(saw, JSON.stringify(saw) === JSON.stringify(told));
    });
    const rejected = await open("close", "name=x&reject");
    expect(await rejected.first(2)).toEqual(["welcome x", [4001, "not you", true]]);
  });

  test("throws what the platform throws when misused", async () => {
    const { webSocket } = await upgraded(env.Room.getByName("wrong"));
    expect(() => webSocket.send("x")).toThrow(TypeError);
    expect(() => webSocket.close()).toThrow(TypeError);
    webSocket.accept();
    expect(() => webSocket.accept()).toThrow("accepted already");
    expect(() => new Response(null, { status: 101, webSocket } as ResponseInit)).toThrow(
      /can't be returned in a Response after accept\(\)/,
    );
    expect(() => webSocket.close(1005)).toThrow(RangeError);
    webSocket.close();
    webSocket.close();
    expect(() => webSocket.send("x")).toThrow(/after close\(\)/);
  });

  test("is closed with 1009 after an error by a message past the limit", async () => {
    const ada = await open("large");
    ada.socket.send(new Uint8Array(4 * 1024 * 1024 + 1));
    expect((await ada.first(3)).slice(1)).toEqual(["error", [1009, "Message too large", false]]);
  });

  test("is not opened if the object returns something else, or fails", async () => {
    const refused = await upgraded(env.Room.getByName("refused"), "");
    expect([refused.status, refused.headers.get("x-a"), await refused.text(), refused.webSocket]).toEqual(
      [403, "1", "Who are you?", undefined],
    ); // prettier-ignore
    expect((await upgraded(env.Room.getByName("refused"), "name=x&throw")).status).toBe(500);
  });

  test("becomes a client's if the module returns the response, or its socket in a new one", async () => {
    for (const kind of ["room", "copy", "dialer"]) {
      const client = await TestSocket.open(`${system.url}/${kind}/passed?name=bob`);
      client.send("one");
      expect(await client.first(2)).toEqual(["welcome bob", "echo one"]);
      client.send("bye");
      await pollUntil("it is closed", () => client.closed?.reason === "as you wish");
    }
    const taken = await TestSocket.open(`${system.url}/taken/passed?name=bob`);
    expect(taken.refused).toMatchObject({ status: 500 });
  });

  test("reaches an agent through the agents' protocol", async () => {
    const desk = (system.gateway.env["Desk"] as unknown as AgentNamespace).getByName("d");
    const { socket, first, shown } = accepted((await upgraded(desk as never)).webSocket);
    await first(3);
    socket.send("hello");
    await pollUntil("it has answered", () => shown().includes("desk: hello"));
    const types = shown().slice(0, 3).map((frame) => (JSON.parse(String(frame)) as { type: string }).type); // prettier-ignore
    expect(types).toEqual(["cf_agent_identity", "cf_agent_state", "cf_agent_mcp_servers"]);
    socket.close();
  });
});

describe("a socket that an object opens", () => {
  const toldOf = (name: string, heard: number, isClosed = false) =>
    pollUntil(`${name} was told`, async () => {
      const saw = await env.Dialer.getByName(name).told();
      return look(saw, saw.heard.length >= heard && (!isClosed || saw.closed !== null));
    });

  test("delivers its events as turns, and keeps the object in memory until it closes", async () => {
    const dialer = env.Dialer.getByName("d");
    expect(await dialer.dial("Room", "dialed")).toBe(101);
    await dialer.say("one", "two");
    expect((await toldOf("d", 3)).heard).toEqual(["welcome dialer", "echo one", "echo two"]);
    const idle = env.Dialer.getByName("without a socket");
    const first = await idle.which();
    const left = async () => (await idle.which()) !== first;
    await pollUntil("one without a socket has left memory", left, { intervalMs: 600 });
    await dialer.say("three");
    expect((await toldOf("d", 4)).heard.at(-1)).toBe("echo three");
    await dialer.hangUp(4005, "done");
    expect((await toldOf("d", 4, true)).closed).toEqual([4005, "done", true]);
  });

  test("closes when its agent is evicted, and notifies the other side", async () => {
    const dialer = env.Dialer.getByName("gone");
    await dialer.dial("Room", "left");
    await dialer.abort().catch(() => undefined);
    await pollUntil("the room was told", async () => {
      const saw = await env.Room.getByName("left").closes();
      return look(saw, JSON.stringify(saw) === '[[1006,"",false]]');
    });
  });

  test("works between two hosts", async () => {
    const second = await startTestHost(system.options, "host-b");
    await pollUntil("both have shards", () => second.host.shardsOwned.length > 0);
    const names = Array.from({ length: 12 }, (_, n) => `far ${n}`);
    await Promise.all(names.map((name) => env.Dialer.getByName(name).dial("Room", `${name}!`)));
    await Promise.all(names.map((name) => env.Dialer.getByName(name).say("one", "two")));
    for (const name of names)
      expect((await toldOf(name, 3)).heard).toEqual(["welcome dialer", "echo one", "echo two"]);
    expect(system.host.host.agentsActive).toBeGreaterThan(0);
    expect(second.host.agentsActive).toBeGreaterThan(0);
    await second.stop();
  });
});

describe("when a host is lost", () => {
  const start = async () => {
    const { Dialer, Live, Room } = dial;
    const t = await testAgents({ agents: [Dialer, Live, Room] as never });
    return Object.assign(t, { objects: t.env as unknown as DialEnv });
  };

  test("a module's socket to a hibernating one continues, one with listeners is closed", async () => {
    await using t = await start();
    const room = accepted((await upgraded(t.objects.Room.getByName("a"))).webSocket);
    const live = accepted((await upgraded(t.objects.Live.getByName("a"))).webSocket);
    live.socket.send("x");
    await t.settled();
    expect([room.shown(), live.shown()]).toEqual([["welcome ada"], ["1 x"]]);
    await t.crash();
    await t.revive();
    room.socket.send("who");
    live.socket.send("y");
    await t.settled();
    expect(room.shown().at(-1)).toBe('"ada (again)"');
    expect(live.shown().at(-1)).toEqual([1012, "The object was restarted", true]);
  });

  test("a socket that is not accepted is closed after a minute", async () => {
    await using t = await start();
    const { webSocket } = await upgraded(t.objects.Room.getByName("a"));
    await t.advance("59 seconds");
    expect(await t.objects.Room.getByName("a").closes()).toBeUndefined();
    await t.advance("2 seconds");
    expect(await t.objects.Room.getByName("a").closes()).toEqual([[1006, "", false]]);
    const late = accepted(webSocket);
    await t.settled();
    expect(late.shown()).toEqual(["error", [1013, "Not accepted within 60 seconds", false]]);
  });
});
