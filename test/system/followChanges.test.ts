/** `agents export --follow`: other systems read each turn once, in order, from any position. */
import { expect, test } from "vitest";
import { Agent } from "agents";
import { pollUntil } from "../kit/poll.ts";
import { runCommand } from "../kit/runCommand.ts";
import { useSystems } from "./kit.ts";

/** Past what the journal writes whole: states are splices. */
const PADDING = "x".repeat(2_000);

class Counter extends Agent<unknown, { readonly n: number; readonly padding: string }> {
  override initialState = { n: 0, padding: PADDING };
  override async onRequest(): Promise<Response> {
    this.setState({ n: this.state.n + 1, padding: PADDING });
    return new Response(String(this.state.n));
  }
}
class Other extends Counter {}

interface Line {
  readonly position: string;
  readonly event: string;
  readonly turn: number;
  readonly class: string;
  readonly name: string;
  readonly seq: number;
  readonly changed: ReadonlyArray<string>;
  readonly state?: { readonly n: number };
}

const systems = useSystems();

async function start() {
  const system = await systems.start({ agents: { Counter, Other } }, { streamGroups: 2 });
  const { nats, namespace } = system.options;
  const where = ["--nats", nats, "--namespace", namespace!];
  const follow = (...args: string[]) => {
    const lines: Line[] = [];
    const err: string[] = [];
    const terminal = {
      out: (line: string) => void lines.push(JSON.parse(line) as Line),
      err: (line: string) => void err.push(line),
    };
    const ended = runCommand(["export", ...args, ...where], { terminal }).then(({ code }) => code);
    return { lines, err, ended };
  };
  const count = async (name: string, className = "counter") => {
    const response = await fetch(`${system.url}/agents/${className}/${name}`);
    expect(response.status).toBe(200);
  };
  return { follow, count };
}

const turns = (lines: ReadonlyArray<Line>) => lines.filter(({ state }) => state !== undefined);

test("the changes are printed from the beginning, then as turns are stored, and from any line on", async () => {
  const { follow, count } = await start();
  const names = ["a", "b", "c"];
  for (let n = 0; n < 4; n++) for (const name of names) await count(name);
  const { lines, ended } = follow("--follow", "--limit", "24");
  await pollUntil("what was before is read", () => turns(lines).length === 12);
  for (let n = 0; n < 4; n++) for (const name of names) await count(name);
  await ended;
  for (const name of names)
    expect(turns(lines).flatMap((line) => (line.name === name ? [line.state!.n] : []))).toEqual([
      1, 2, 3, 4, 5, 6, 7, 8,
    ]);
  expect(new Set(lines.map(({ event, turn }) => `${event} ${turn}`)).size).toBe(lines.length);
  expect(turns(lines)[0]).toMatchObject({ class: "Counter", changed: ["state"] });
  for (const at of [0, 5, 11, 12, 17, 22]) {
    const rest = follow("--follow", "--from", lines[at]!.position, "--limit", `${23 - at}`);
    await rest.ended;
    const after = new Set(lines.slice(at + 1).map(({ event, turn }) => `${event} ${turn}`));
    expect(new Set(rest.lines.map(({ event, turn }) => `${event} ${turn}`))).toEqual(after);
    expect(rest.lines.every(({ state }) => state === undefined || state.n > 0)).toBe(true);
  }
});

test("the changes are printed for one class or one agent, and from now on", async () => {
  const { follow, count } = await start();
  for (const name of ["a", "b"]) for (const of of ["counter", "other"]) await count(name, of);
  const one = follow("other", "b", "--follow", "--limit", "1");
  await one.ended;
  expect(one.lines).toMatchObject([{ class: "Other", name: "b" }]);
  const all = follow("Other", "--follow", "--limit", "2");
  await all.ended;
  expect(all.lines.map(({ class: of, name }) => `${of} ${name}`)).toEqual(["Other a", "Other b"]);
  const now = follow("--follow", "--from", "end", "--limit", "1");
  await count("later");
  await pollUntil("it comes", async () => {
    if (now.lines.length === 0) await count("later");
    return now.lines.length > 0;
  });
  expect(now.lines).toMatchObject([{ name: "later" }]);
});

test("the changes continue where they were when the broker returns", async () => {
  const { follow, count } = await start();
  await count("a");
  const { lines, ended } = follow("counter", "a", "--follow", "--limit", "6");
  await pollUntil("the first is read", () => turns(lines).length === 1);
  await systems.nats.kill();
  await systems.nats.restart();
  for (let n = 0; n < 5; n++) await count("a");
  await ended;
  const seen = turns(lines).map(({ state }) => state!.n);
  expect(seen).toEqual(seen.map((_, n) => n + 1));
  expect(new Set(lines.map(({ event }) => event)).size).toBe(lines.length);
});

test("invalid arguments are errors that say what is wrong", async () => {
  const { follow } = await start();
  for (const [args, message] of [
    [["--follow", "--from", "yesterday"], /position/],
    [["counter"], /Specify the agent/],
    [["counter", "a", "--from", "end"], /require --follow/],
  ] as const) {
    const { ended, err } = follow(...args);
    expect(await ended).toBe(2);
    expect(err.join()).toMatch(message);
  }
});
