import { AsyncLocalStorage } from "node:async_hooks";
import { EventEmitter } from "node:events";
import { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { RuntimeChecks } from "../../services/watchdog/RuntimeChecks.ts";

/** More than the checks after which `RuntimeChecks` calls a part broken. */
const CHECKS = 10;
/** For a timer of 0 ms. */
const PAUSE_MS = 3;

type Replace = readonly [of: object, key: string, by: unknown];

/** The part that is broken. What is replaced is there only while the checks look at it. */
async function brokenBy(...[of, key, by]: Replace): Promise<string | undefined> {
  const original = Object.getOwnPropertyDescriptor(of, key)!;
  const checks = new RuntimeChecks();
  const replaced: string[] = [];
  for (let n = 0; n < CHECKS; n++) {
    Object.defineProperty(of, key, { ...original, value: by });
    let broken: number | undefined;
    try {
      checks.look((part) => void replaced.push(checks.nameOf(part)));
      broken = checks.check();
    } finally {
      Object.defineProperty(of, key, original);
    }
    if (broken !== undefined) {
      expect(replaced).toEqual([checks.nameOf(broken)]);
      return checks.nameOf(broken);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  return undefined;
}

const { get } = Map.prototype;
const { then } = Promise.prototype;
const { setTimeout: wait } = globalThis;
const { now } = Date;
const { write } = Socket.prototype;
const { emit } = EventEmitter.prototype;

describe("a part of the runtime that was replaced", () => {
  it.each<readonly [string, ...Replace]>([
    ["Map.prototype.get", Map.prototype, "get", () => undefined],
    ["Promise.prototype.then", Promise.prototype, "then", () => new Promise(() => {})],
    ["Date.now", Date, "now", () => 0],
    ["Buffer.from", Buffer, "from", undefined],
    ["setTimeout", globalThis, "setTimeout", () => ({ unref: () => 0 })],
    ["EventEmitter.prototype.emit", EventEmitter.prototype, "emit", () => true],
    ["EventEmitter.prototype.on", EventEmitter.prototype, "on", () => undefined],
    ["net.Socket.prototype.write", Object.getPrototypeOf(Socket.prototype), "write", () => true],
    [
      "AsyncLocalStorage.prototype.run",
      AsyncLocalStorage.prototype,
      "run",
      (_: unknown, f: () => unknown) => f(),
    ],
    [
      "AsyncLocalStorage.prototype.getStore",
      AsyncLocalStorage.prototype,
      "getStore",
      () => undefined,
    ],
  ])("is broken if the other one does not work: %s", async (name, ...replace) => {
    expect(await brokenBy(...replace)).toBe(name);
  });

  it.each<readonly [string, ...Replace]>([
    [
      "Map.prototype.get",
      Map.prototype,
      "get",
      function (this: Map<unknown, unknown>, key: unknown) {
        return get.call(this, key);
      },
    ],
    [
      "Promise.prototype.then",
      Promise.prototype,
      "then",
      function (this: Promise<unknown>, f: () => void) {
        return then.call(this, f);
      },
    ],
    ["Date.now", Date, "now", () => now()],
    ["setTimeout", globalThis, "setTimeout", (f: () => void, ms: number) => wait(f, ms)],
    [
      "net.Socket.prototype.write",
      Object.getPrototypeOf(Socket.prototype),
      "write",
      function (this: Socket, chunk: string) {
        return write.call(this, chunk);
      },
    ],
    [
      "EventEmitter.prototype.emit",
      EventEmitter.prototype,
      "emit",
      function (this: EventEmitter, ...args: Parameters<EventEmitter["emit"]>) {
        return emit.apply(this, args);
      },
    ],
  ])("is not broken if the other one works: %s", async (_, ...replace) => {
    expect(await brokenBy(...replace)).toBeUndefined();
  });

  it("is not broken if it failed once", () => {
    const checks = new RuntimeChecks();
    Date.now = () => 0;
    checks.look(() => undefined);
    checks.check();
    Date.now = now;
    for (let n = 0; n < CHECKS; n++) expect(checks.check()).toBeUndefined();
  });
});
