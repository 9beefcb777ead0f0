/** The rules of `core/bus/Bus`, for any adapter. */
import { AsyncLocalStorage } from "node:async_hooks";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { BusReply } from "../../core/bus/Bus.ts";
import { arrived } from "../kit/arrived.ts";
import type { Backend, Ports } from "./Backend.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = (data: Uint8Array): string => new TextDecoder().decode(data);

export function busRules(makeBackend: () => Promise<Backend>): void {
  describe("the bus", () => {
    let backend: Backend;
    let a: Ports;
    let b: Ports;
    let c: Ports;
    beforeAll(async () => {
      backend = await makeBackend();
      [a, b, c] = [await backend.open(), await backend.open(), await backend.open()];
    });
    afterAll(() => backend.close());

    const collect = async (ports: Ports, subject: string, queue?: string) => {
      const got: string[] = [];
      const close = ports.bus.subscribe(
        subject,
        (m) => got.push(`${m.subject} ${text(m.data)}`),
        queue === undefined ? {} : { queue },
      );
      await arrived(ports.bus);
      return { got, close };
    };
    /** Awaited with the backend, since virtual time does not pass by itself. */
    const settled = async (request: Promise<BusReply>): Promise<BusReply> => {
      let reply: BusReply | undefined;
      void request.then((r) => (reply = r));
      return backend.until("the request's end", () => reply);
    };

    it("delivers in order to every subscriber, by exact subject and by wildcards", async () => {
      const exact = await collect(b, "bus.order.x");
      const one = await collect(b, "bus.order.*");
      const rest = await collect(a, "bus.>");
      const other = await collect(a, "bus.order.*.deep");
      for (let n = 0; n < 100; n++) c.bus.publish("bus.order.x", bytes(String(n)));
      c.bus.publish("bus.order.x.deep", bytes("d"));
      await backend.until("all of it", () => rest.got.length === 101 && one.got.length === 100);
      const wanted = Array.from({ length: 100 }, (_, n) => `bus.order.x ${n}`);
      expect(exact.got).toEqual(wanted);
      expect(one.got).toEqual(wanted);
      expect(rest.got).toEqual([...wanted, "bus.order.x.deep d"]);
      expect(other.got).toEqual(["bus.order.x.deep d"]);
      for (const { close } of [exact, one, rest, other]) close();
    });

    it("delivers asynchronously and in order to an exclusive subscriber, from its own process and others", async () => {
      const got: string[] = [];
      const close = a.bus.subscribe("bus.alone", ({ data }) => got.push(text(data)), {
        alone: true,
      });
      await arrived(a.bus);
      for (let n = 0; n < 50; n++) {
        a.bus.publish("bus.alone", bytes(`own ${n}`));
        b.bus.publish("bus.alone", bytes(`other ${n}`));
      }
      expect(got.filter((message) => message.startsWith("own"))).toEqual([]);
      await backend.until("all of it", () => got.length === 100);
      for (const from of ["own", "other"])
        expect(got.filter((message) => message.startsWith(from))).toEqual(
          Array.from({ length: 50 }, (_, n) => `${from} ${n}`),
        );
      await close();
      a.bus.publish("bus.alone", bytes("late"));
      b.bus.publish("bus.alone", bytes("late"));
      await Promise.all([arrived(a.bus), arrived(b.bus)]);
      expect(got).toHaveLength(100);
    });

    it("answers requests to an exclusive listener, by pattern too, from its own process and others, until it closes", async () => {
      const close = a.bus.subscribe(
        "bus.lone.>",
        ({ subject, data, reply }) => {
          if (reply !== undefined && text(data) !== "silent")
            a.bus.publish(reply, bytes(`${subject} ${text(data)}`));
        },
        { alone: true },
      );
      await arrived(a.bus);
      const ask = (ports: Ports, subject: string, data: string) =>
        ports.bus.request(subject, bytes(data), { timeoutMs: 5_000 });
      const replies = await settledAll([
        ask(a, "bus.lone.x", "own"),
        ask(b, "bus.lone.x", "other"),
        ask(a, "bus.lone.x.deep", "own"),
        ask(a, "bus.lonely.x", "nobody"),
        ask(a, "bus.lone", "nobody"),
      ]);
      expect(replies.map((r) => (r._tag === "Reply" ? text(r.data) : r._tag))).toEqual([
        "bus.lone.x own",
        "bus.lone.x other",
        "bus.lone.x.deep own",
        "NoResponders",
        "NoResponders",
      ]);
      const startedMs = backend.nowMs();
      const silent = a.bus.request("bus.lone.x", bytes("silent"), { timeoutMs: 200 });
      expect(await settled(silent)).toEqual({ _tag: "TimedOut" });
      expect(backend.nowMs() - startedMs).toBeGreaterThanOrEqual(195);
      const stop = new AbortController();
      const aborted = a.bus.request("bus.lone.x", bytes("silent"), {
        timeoutMs: 60_000,
        signal: stop.signal,
      });
      stop.abort();
      expect(await settled(aborted)).toEqual({ _tag: "TimedOut" });
      await close();
      await arrived(a.bus);
      expect(await settled(ask(a, "bus.lone.x", "late"))).toEqual({ _tag: "NoResponders" });
    });

    it("delivers a process's own messages and requests to it only if no other process listens", async () => {
      const shared = await collect(a, "bus.own.*");
      const member = await collect(a, "bus.own.*", "workers");
      const other = await collect(b, "bus.own.*", "workers");
      a.bus.publish("bus.own.x", bytes("own"));
      b.bus.publish("bus.own.x", bytes("other's"));
      await backend.until("both", () => other.got.length === 1 && member.got.length === 1);
      expect(other.got).toEqual(["bus.own.x own"]);
      expect(member.got).toEqual(["bus.own.x other's"]);
      expect(shared.got).toEqual(["bus.own.x other's"]);
      other.close();
      await arrived(b.bus);
      const reply = a.bus.request("bus.own.x", bytes(""), { timeoutMs: 5_000 });
      expect(await settled(reply)).toEqual({ _tag: "NoResponders" });
      for (const { close } of [shared, member]) close();
    });

    it("runs a listener outside the ambient context of the publisher or requester", async () => {
      const ambient = new AsyncLocalStorage<string>();
      const seen: Array<string | undefined> = [];
      const listen = (subject: string, ports: Ports, alone: boolean) =>
        ports.bus.subscribe(
          subject,
          ({ reply }) => {
            seen.push(ambient.getStore());
            if (reply !== undefined) ports.bus.publish(reply, bytes(""));
          },
          { alone },
        );
      const closing = [
        listen("bus.ambient.alone", a, true),
        listen("bus.ambient.shared", b, false),
      ];
      await Promise.all([arrived(a.bus), arrived(b.bus)]);
      const replies = ambient.run("of the caller", () =>
        ["alone", "shared"].map((last) =>
          a.bus.request(`bus.ambient.${last}`, bytes(""), { timeoutMs: 5_000 }),
        ),
      );
      await settledAll(replies);
      expect(seen).toEqual([undefined, undefined]);
      for (const close of closing) await close();
    });

    it("delivers each message to one member of a queue group", async () => {
      const [one, two, all] = [
        await collect(a, "bus.queue", "workers"),
        await collect(b, "bus.queue", "workers"),
        await collect(b, "bus.queue"),
      ];
      for (let n = 0; n < 50; n++) c.bus.publish("bus.queue", bytes(String(n)));
      await backend.until("all of it", () => all.got.length === 50);
      await backend.until("each once", () => one.got.length + two.got.length === 50);
      expect(new Set([...one.got, ...two.got]).size).toBe(50);
      for (const { close } of [one, two, all]) close();
    });

    it("delivers nothing to a closed subscription, and closing twice has no effect", async () => {
      const closed = await collect(b, "bus.closed");
      closed.close();
      closed.close();
      const open = await collect(b, "bus.closed");
      a.bus.publish("bus.closed", bytes("x"));
      await backend.until("the message", () => open.got.length === 1);
      expect(closed.got).toEqual([]);
      open.close();
    });

    it("answers a request with the first reply, and concurrent requests each with their own", async () => {
      const close = b.bus.subscribe("bus.echo", ({ data, reply }) => {
        if (reply !== undefined) b.bus.publish(reply, bytes(`echo ${text(data)}`));
      });
      await arrived(b.bus);
      const replies = await settledAll(
        Array.from({ length: 50 }, (_, n) =>
          a.bus.request("bus.echo", bytes(String(n)), { timeoutMs: 5_000 }),
        ),
      );
      expect(replies.map((r) => (r._tag === "Reply" ? text(r.data) : r._tag))).toEqual(
        Array.from({ length: 50 }, (_, n) => `echo ${n}`),
      );
      close();
    });
    const settledAll = async (requests: Promise<BusReply>[]): Promise<BusReply[]> => {
      const replies = [];
      for (const request of requests) replies.push(await settled(request));
      return replies;
    };

    it("ends a request without listeners with NoResponders, long before its timeout", async () => {
      const startedMs = backend.nowMs();
      const reply = await settled(a.bus.request("bus.nobody", bytes(""), { timeoutMs: 10_000 }));
      expect(reply).toEqual({ _tag: "NoResponders" });
      expect(backend.nowMs() - startedMs).toBeLessThan(2_000);
    });

    it("ends an unanswered request with TimedOut, at its timeout or on its signal", async () => {
      const silent = await collect(b, "bus.silent");
      const startedMs = backend.nowMs();
      const request = a.bus.request("bus.silent", bytes(""), { timeoutMs: 200 });
      expect(await settled(request)).toEqual({ _tag: "TimedOut" });
      expect(backend.nowMs() - startedMs).toBeGreaterThanOrEqual(195);
      const stop = new AbortController();
      const aborted = a.bus.request("bus.silent", bytes(""), {
        timeoutMs: 60_000,
        signal: stop.signal,
      });
      stop.abort();
      expect(await settled(aborted)).toEqual({ _tag: "TimedOut" });
      silent.close();
    });

    it("throws RangeError past the payload limit, and accepts a message exactly at it", async () => {
      const sink = await collect(b, "bus.large");
      const most = new Uint8Array(a.bus.payloadBytesMax);
      expect(() => a.bus.publish("bus.large", new Uint8Array(most.length + 1))).toThrow(RangeError);
      a.bus.publish("bus.large", most);
      await backend.until("the message", () => sink.got.length === 1);
      sink.close();
    });

    it("ends requests at once while the broker is away, drops publishes, and then recovers", async () => {
      const sink = await collect(b, "bus.away");
      const silent = await collect(b, "bus.away.silent");
      const inFlight = a.bus.request("bus.away.silent", bytes(""), { timeoutMs: 60_000 });
      await backend.until("the request's arrival", () => silent.got.length === 1);
      await backend.kill();
      expect(await settled(inFlight)).toEqual({ _tag: "TimedOut" });
      await backend.until(
        "the loss of the connections",
        () => !a.bus.connected() && !b.bus.connected(),
      );
      for (let n = 0; n < 100; n++) a.bus.publish("bus.away", bytes("dropped"));
      const startedMs = backend.nowMs();
      const request = a.bus.request("bus.away", bytes(""), { timeoutMs: 10_000 });
      expect(await settled(request)).toEqual({ _tag: "TimedOut" });
      expect(backend.nowMs() - startedMs).toBeLessThan(2_000);
      await backend.restart();
      await backend.until("the connections", () => a.bus.connected() && b.bus.connected());
      await arrived(b.bus);
      a.bus.publish("bus.away", bytes("back"));
      await backend.until("a message", () => sink.got.length > 0);
      expect(sink.got).toEqual(["bus.away back"]);
      sink.close();
      silent.close();
    });
  });
}
