/** Which server a process gets, and what it is told when the native one can't load. */
import { Effect, Exit } from "effect";
import { expect, it } from "vitest";
import { HttpServer } from "../../core/http/HttpServer.ts";
import { httpServerLayer } from "../../services/wiring/httpServerLayer.ts";
import { loadUws, UwsUnavailable } from "../../services/uws/loadUws.ts";

const nameOf = (layer: ReturnType<typeof httpServerLayer>) =>
  Effect.provide(
    Effect.map(HttpServer, (server) => server.name),
    layer,
  );

const missing = () =>
  loadUws(() => {
    throw Object.assign(new Error("Cannot find module"), { code: "MODULE_NOT_FOUND" });
  });

const unloadable = () =>
  loadUws(() => {
    throw new Error("This version of uWS.js supports only …");
  });

it("the choice node is node:http, whatever is installed", async () => {
  expect(await Effect.runPromise(nameOf(httpServerLayer("node")))).toBe("node:http");
});

it("the choice auto is uWebSockets.js where it loads", async () => {
  const expected = loadUws() instanceof UwsUnavailable ? "node:http" : "uWebSockets.js";
  expect(await Effect.runPromise(nameOf(httpServerLayer("auto")))).toBe(expected);
});

it("the choice auto falls back on node:http where it does not load", async () => {
  for (const load of [missing, unloadable]) {
    expect(await Effect.runPromise(nameOf(httpServerLayer("auto", { load })))).toBe("node:http");
  }
});

it("a binary that does not load causes a warning, a plain install does not", async () => {
  const said: string[] = [];
  const say = (level: string) => (message: string) => void said.push(`${level}: ${message}`);
  const log = { debug: say("debug"), info: say("info"), warn: say("warn"), error: say("error") };
  for (const load of [missing, unloadable])
    await Effect.runPromise(nameOf(httpServerLayer("auto", { load, log })));
  expect(said).toEqual([
    expect.stringMatching(/^info: Serving HTTP by node:http: uWebSockets.js is not installed/),
    expect.stringMatching(/^warn: Serving HTTP by node:http: uWebSockets.js has no binary/),
  ]);
});

it("the choice uws fails where it does not load, and says why", async () => {
  const reasons = [];
  for (const load of [missing, unloadable]) {
    const exit = await Effect.runPromiseExit(nameOf(httpServerLayer("uws", { load })));
    expect(Exit.isFailure(exit)).toBe(true);
    const failure = await Effect.runPromise(Effect.flip(nameOf(httpServerLayer("uws", { load }))));
    reasons.push([failure.reason, failure.message]);
  }
  expect(reasons).toEqual([
    ["notInstalled", expect.stringContaining("is not installed")],
    ["noBinary", expect.stringContaining(`${process.platform} ${process.arch} with Node`)],
  ]);
});

it("loading does not change the environment", () => {
  const before = { ...process.env };
  loadUws();
  expect(process.env).toEqual(before);
});
