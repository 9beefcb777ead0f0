/** How the console reports a command that it has run, by how the command ended. */
import { expect, test } from "vitest";
import { ownProcess } from "../../services/cli/roles/ownProcess.ts";

const TARGET = { natsUrl: "nats://localhost:4222", namespace: "agents" };
const LINES = '{"seq":1}\n{"seq":2}\n';

const ran = (code: number, out: string, err = "", signal?: NodeJS.Signals) =>
  ownProcess({ runSelf: async () => ({ code, out, err, signal }) }, TARGET)("rerun", []);

test("a rerun that completes returns all of its lines, whether or not anything differs", async () => {
  const all = [{ seq: 1 }, { seq: 2 }];
  expect(await ran(0, LINES)).toEqual(all);
  expect(await ran(4, LINES, "agents: A/a: 1 the same, 1 another way.\n")).toEqual(all);
});

test("a command that ends early is a failure with its reason", async () => {
  const err =
    "a warning: agents: as such\n40 events run again\nagents: The broker is away: gone.\n";
  await expect(ran(1, LINES, err)).rejects.toMatchObject({
    status: 400,
    message: "The broker is away: gone. (agents rerun had 2 results by then)",
  });
  await expect(ran(3, "", "agents: There is no agent A/a\n")).rejects.toMatchObject({
    status: 404,
    message: "There is no agent A/a",
  });
  await expect(ran(1, LINES, "", "SIGKILL")).rejects.toMatchObject({ status: 503 });
});

test("a command that never ends is a failure with its time limit", async () => {
  const late = { code: undefined, signal: "SIGKILL", out: LINES, err: "", late: true } as const;
  const own = ownProcess({ runSelf: async () => late }, TARGET);
  await expect(own("dead redrive", ["--on-fork"])).rejects.toMatchObject({
    status: 503,
    message: "agents dead redrive had no result after 10 minutes, and was ended. Run it in a terminal.", // prettier-ignore
  });
});
