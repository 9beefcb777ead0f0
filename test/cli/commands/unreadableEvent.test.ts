/**
 * Commands on an agent whose journal has an event that can't be read: each says which event, and a
 * command that reads all agents says of which agent it is.
 */
import { beforeAll, expect, test } from "vitest";
import { agentId, type Sequence } from "../../../schemas/Address.ts";
import { followAll } from "./followAll.ts";
import { makeMemoryJournal } from "../../../services/memory/MemoryJournal.ts";
import { CliFixture } from "../fixture.ts";

const ID = agentId("RepoAgent", "hurt");
const NATS = ["--nats", "nats://one:4222"];
const cli = new CliFixture();
const journal = makeMemoryJournal(cli.broker.connect());
let seq: number;

beforeAll(async () => {
  const before = await cli.append(ID.class, ID.name, [{ state: { set: 1 } }]);
  const options = { expectedSeq: before as Sequence, signal: AbortSignal.timeout(1_000) };
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

test("agents export --follow", async () => {
  await expect(followAll({ journal }, seq)).rejects.toThrow(
    new RegExp(`^RepoAgent/hurt: event ${seq} can't be read: .*Continue with --from`),
  );
});
