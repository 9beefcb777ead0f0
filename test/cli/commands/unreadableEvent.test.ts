/** Commands on an agent with an event that can't be read say which event, and of which agent. */
import { beforeAll, expect, test } from "vitest";
import { agentId, type Sequence } from "../../../schemas/Address.ts";
import { encodeFrame } from "../../../schemas/Frame.ts";
import { followAll } from "./followAll.ts";
import { makeMemoryJournal } from "../../../services/memory/MemoryJournal.ts";
import { CliFixture } from "../fixture.ts";

const ID = agentId("RepoAgent", "hurt");
const NATS = ["--nats", "nats://one:4222"];
const cli = new CliFixture();
const journal = makeMemoryJournal(cli.broker.connect());
const never = new AbortController().signal;
let seq: number;

beforeAll(async () => {
  const before = await cli.append(ID.class, ID.name, [{ state: { set: 1 } }]);
  const options = { expectedSeq: before as Sequence, signal: never };
  const stored = await journal.append(ID, new TextEncoder().encode("no frame"), options);
  if (stored._tag !== "Stored") throw new Error("not stored");
  ({ seq } = stored);
});

test.each(["state", "sql", "history", "schedules", "fibers", "export", "fork"])(
  "agents %s",
  async (command) => {
    const more = command === "sql" ? ["SELECT 1"] : command === "fork" ? ["copy"] : [];
    const said = await cli.run([command, ID.class, ID.name, ...more, ...NATS]).then(
      ({ err }) => err,
      (error: Error) => error.message, // `main` prints it
    );
    expect(said).toContain(`event ${seq} can't be read: `);
  },
);

test("agents export --follow has a line for it, and goes on with other agents", async () => {
  const other = await cli.append("RepoAgent", "well", [{ state: { set: 2 } }]);
  const lines = (await followAll({ journal }, other, 3)).map((line) => JSON.parse(line));
  expect(lines.map(({ name }) => name)).toEqual(["hurt", "hurt", "well"]);
  expect(lines[1]).toEqual({
    position: expect.any(String),
    class: ID.class,
    name: ID.name,
    seq,
    unreadable: expect.stringContaining(`RepoAgent/hurt: event ${seq} can't be read: `),
  });
});

test("agents export --follow ends at an event of a newer release", async () => {
  const frame = encodeFrame({ id: "of a newer release" }, new Uint8Array());
  const newer = Buffer.from(Buffer.from(frame).toString("latin1").replace('"v":1', '"v":2'));
  const id = agentId("RepoAgent", "zeta");
  const stored = await journal.append(id, newer, { expectedSeq: 0 as Sequence, signal: never });
  const end = stored._tag === "Stored" ? stored.seq : 0;
  await expect(followAll({ journal }, end)).rejects.toThrow(/upgrade it.*Continue with --from/);
});
