/** Clients past the rates of a socket or an address are closed with a reason, on both servers. */
import { describe, expect, it, test } from "vitest";
import { Agent, type Connection } from "agents";
import { SocketRates, type SocketMeter } from "../../services/gateway/SocketRates.ts";
import { pollUntil } from "../kit/poll.ts";
import { adapters } from "../http/kit.ts";
import { TestSocket, useSystems } from "../system/kit.ts";

describe("the rates of sockets", () => {
  const clock = { nowMs: 1, monotonicMs: () => clock.nowMs };
  const rates = () =>
    new SocketRates(
      { frames: { perSecond: 10, burst: 20 }, bytes: { perSecond: 1_000, burst: 2_000 } },
      clock,
    );
  /** Returns how many of `count` are accepted. */
  const taken = (meter: SocketMeter, count: number, bytes = 1): number =>
    Array.from({ length: count }, () => meter.take(bytes)).filter((why) => why === undefined)
      .length;

  test("limit frames: a burst, then a number per second", () => {
    const meter = rates().open("192.0.2.1");
    expect(taken(meter, 30)).toBe(20);
    clock.nowMs += 500;
    expect(taken(meter, 30)).toBe(5);
    expect(meter.take(1)).toBe(
      "More than 10 frames per second from one socket (--frames-per-socket)",
    );
  });

  test("limit bytes; a message larger than the burst needs a full bucket", () => {
    const meter = rates().open("192.0.2.1");
    expect(taken(meter, 4, 1_000)).toBe(2);
    expect(meter.take(1_000)).toBe(
      "More than 1000 bytes per second from one socket (--bytes-per-socket)",
    );
    clock.nowMs += 1_000;
    expect(taken(meter, 1, 5_000)).toBe(0);
    clock.nowMs += 1_000;
    expect(taken(meter, 2, 5_000)).toBe(1);
  });

  test("allow one address four times a socket's rate, for as long as it has a socket", () => {
    const all = rates();
    const many = Array.from({ length: 8 }, () => all.open("192.0.2.1"));
    expect(many.map((meter) => taken(meter, 20))).toEqual([20, 20, 20, 20, 0, 0, 0, 0]);
    expect(all.open("192.0.2.1").take(1)).toBe(
      "More than 40 frames per second from one address (--frames-per-socket)",
    );
    const other = all.open("192.0.2.2");
    expect(taken(other, 20)).toBe(20);
    const { addresses } = all as unknown as { addresses: Map<string, unknown> };
    expect(addresses.size).toBe(2);
    other.close();
    expect(addresses.size).toBe(1);
  });

  test.each([
    "127.0.0.1",
    "10.1.2.3",
    "172.20.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "0:0:0:0",
    "fd00:1:2:3",
  ])("do not limit the address %s, which may be a proxy's", (address) => {
    const all = rates();
    const many = Array.from({ length: 8 }, () => all.open(address));
    expect(many.map((meter) => taken(meter, 30))).toEqual(many.map(() => 20));
  });

  test("limit nothing when they are not set", () => {
    expect(taken(new SocketRates({}, clock).open("192.0.2.1"), 100, 1e9)).toBe(100);
  });
});

class Quiet extends Agent {
  override onMessage(connection: Connection, message: unknown): void {
    if (message === "hello") connection.send("hello");
  }
}
/** Sends 12 MB while its client's upgrade waits for it. */
class Loud extends Agent {
  override onConnect(connection: Connection): void {
    for (let n = 0; n < 12; n++) connection.send(n + "x".repeat(1_000_000));
  }
}

const systems = useSystems();

describe.each(adapters)("over $name", ({ name }) => {
  const start = (socketRates: object) =>
    systems.start({ agents: { Quiet, Loud } }, { http: name, gateway: { socketRates } });

  it("an address has as many sockets as it may, also when it asks for all at once", async () => {
    const system = await systems.start(
      { agents: { Quiet } },
      { http: name, gateway: { socketRates: { perAddressMax: 2 }, trustedProxies: 1 } },
    );
    const open = (caller: string) =>
      TestSocket.open(`${system.url}/agents/quiet/a`, { "x-forwarded-for": caller });
    const asked = await Promise.all(Array.from({ length: 5 }, () => open("192.0.2.1")));
    const opened = asked.filter(({ refused }) => refused === undefined);
    expect(opened).toHaveLength(2);
    expect(asked.flatMap(({ refused }) => refused?.status ?? [])).toEqual([429, 429, 429]);
    const other = await open("192.0.2.2");
    const behindProxy = await Promise.all(Array.from({ length: 3 }, () => open("10.0.0.1")));
    for (const { refused } of [other, ...behindProxy]) expect(refused).toBeUndefined();
    await opened[0]!.close(1000);
    await pollUntil("its place is free", async () => {
      const { refused } = await open("192.0.2.1");
      return refused === undefined || { done: false, saw: refused.status };
    });
    const { addresses } = system.gateway.gateway.sockets.rates as unknown as { addresses: Map<string, { places: number }> }; // prettier-ignore
    expect(addresses.get("192.0.2.1")?.places).toBe(2);
  });

  it("a flood of frames, bytes or pings closes its socket with 1013, and no other", async () => {
    const system = await start({
      frames: { perSecond: 50, burst: 100 },
      bytes: { perSecond: 100_000, burst: 200_000 },
    });
    const url = `${system.url}/agents/quiet/a`;
    const honest = await TestSocket.open(url);
    const attacks: ReadonlyArray<readonly [string, (socket: TestSocket) => void]> = [
      ["More than 50 frames per second from one socket (--frames-per-socket)", (s) => s.send("x")],
      [
        "More than 100000 bytes per second from one socket (--bytes-per-socket)",
        (s) => s.send("x".repeat(50_000)),
      ],
      [
        "More than 50 frames per second from one socket (--frames-per-socket)",
        (s) => s.socket.ping("x"),
      ],
    ];
    for (const [reason, attack] of attacks) {
      const socket = await TestSocket.open(url);
      for (let n = 0; n < 150; n++) attack(socket);
      await socket.until("it is closed", () => socket.closed !== undefined);
      expect(socket.closed).toEqual({ code: 1013, reason });
    }
    const before = honest.frames.length;
    honest.send("hello");
    await honest.until("its answer", () => honest.frames.slice(before).includes("hello"));
    await honest.close(1000);
    await system.stop();
  });

  it("the default rates admit a client that sends a thousand messages at once", async () => {
    const system = await systems.start({ agents: { Quiet, Loud } }, { http: name });
    const socket = await TestSocket.open(`${system.url}/agents/quiet/b`);
    for (let n = 0; n < 999; n++) socket.send("x".repeat(1_000));
    socket.send("hello");
    await socket.until("its answer", () => socket.frames.includes("hello"));
    await socket.close(1000);

    // Frames that an agent sends to a socket that is not open yet are bounded too.
    const loud = await TestSocket.open(`${system.url}/agents/loud/a`);
    await loud.until("it is closed", () => loud.closed !== undefined);
    expect(loud.closed).toEqual({ code: 1013, reason: "Too slow to receive" });
    expect(loud.frames).toEqual([]);
    await system.stop();
  });
});
