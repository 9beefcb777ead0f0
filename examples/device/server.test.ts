/** The twin: what is desired waits for the device, and a device that falls silent is away. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import * as server from "./server.ts";

let test: TestAgents;
beforeEach(async () => (test = await testAgents({ module: server, env: { DEVICE_KEY: "k3y" } })));
afterEach(() => test.close());
const device = () => test.connect(server.DeviceTwin, "lamp-7", { query: { key: "k3y" } });
const app = () => test.connect(server.DeviceTwin, "lamp-7");

it("what an app desires while the device is away is there when it is back", async () => {
  const phone = await app();
  await phone.call("desire", [{ on: true, level: 3 }]);
  const lamp = await device();
  await test.settled();
  expect(lamp.state).toMatchObject({ desired: { on: true, level: 3 }, online: true });
  expect(await lamp.call("report", [{ on: true }])).toEqual({ level: 3 }); // what is left to do
  expect(await lamp.call("report", [{ level: 3 }])).toEqual({});
  expect(phone.state).toMatchObject({ reported: { on: true, level: 3 } });
});

it("a device that says nothing for a minute is away; each report puts that off", async () => {
  const phone = await app();
  const lamp = await device();
  await test.advance("50s");
  await lamp.call("report", [{ on: false }]);
  await test.advance("50s");
  expect(phone.state).toMatchObject({ online: true });
  await test.crash();
  await test.revive();
  await test.advance("20s");
  expect(await test.agent(server.DeviceTwin, "lamp-7").state()).toMatchObject({ online: false });
});

it("an app does not report, and nobody writes the state", async () => {
  const phone = await app();
  await expect(phone.call("report", [{ on: true }])).rejects.toThrow("only the device reports");
  await expect(phone.setState({ desired: {}, reported: {}, online: true })).rejects.toThrow(
    "State update rejected",
  );
});

it("reports that arrive together take effect in their order", async () => {
  const lamp = await device();
  await test.settled();
  const levels = [1, 2, 3, 4, 5, 6, 7];
  await Promise.all(levels.map((level) => lamp.call("report", [{ level }])));
  expect(lamp.state).toMatchObject({ reported: { level: 7 }, online: true });
});

it("settings are an object of plain values", async () => {
  const [phone, lamp] = [await app(), await device()];
  for (const wrong of ["on", null, ["on"], { level: { low: 1 } }, { level: null }]) {
    await expect(phone.call("desire", [wrong])).rejects.toThrow("settings are an object");
    await expect(lamp.call("report", [wrong])).rejects.toThrow("settings are an object");
  }
});

it.each([undefined, ""])("nobody is the device when DEVICE_KEY is %j", async (key) => {
  await using without = await testAgents({
    module: server,
    env: key === undefined ? {} : { DEVICE_KEY: key },
  });
  const lamp = await without.connect(server.DeviceTwin, "lamp-7", { query: { key: key ?? "" } });
  await expect(lamp.call("report", [{ on: true }])).rejects.toThrow("only the device reports");
});
