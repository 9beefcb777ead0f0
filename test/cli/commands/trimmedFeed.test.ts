/** `agents export --follow` where history is trimmed under it: it says where to continue. */
import { expect, test } from "vitest";
import { AgentImage } from "../../../core/journal/AgentImage.ts";
import { agentId, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import { followAll } from "./followAll.ts";
import { makeMemoryJournal } from "../../../services/memory/MemoryJournal.ts";
import { makeMemorySnapshots } from "../../../services/memory/MemorySnapshots.ts";
import { openSqliteDatabases } from "../../../services/sqlite/sqliteDatabases.ts";
import { collect } from "../../kit/collect.ts";
import { CliFixture } from "../fixture.ts";

const ID = agentId("RepoAgent", "trimmed");

test("the error has the position, and the reason what was trimmed", async () => {
  const cli = new CliFixture();
  const sqlite = await openSqliteDatabases({ folder: undefined });
  try {
    await cli.append(ID.class, ID.name, [{ state: { set: "before" } }]);
    const seq = await cli.append(ID.class, ID.name, [{ state: { splice: [1, 2, "B"] } }], {
      after: 1,
    });
    const journal = makeMemoryJournal(cli.broker.connect());
    const [read] = await collect(journal.read(ID, { fromSeq: seq as Sequence }));
    // What it has read is trimmed: the base covers it, and the state before it is gone.
    await journal.trim(ID, seq as Sequence);
    const snapshots = makeMemorySnapshots(cli.broker.connect());
    const image = new AgentImage(ID);
    image.seq = (seq + 1) as Sequence;
    const base = image.encode(new Uint8Array(0));
    const revision = await snapshots.putBase(ID, base, 0);
    await snapshots.putBase(ID, base, revision!);
    const ports = {
      journal: {
        ...journal,
        read: async function* (id: AgentId, range: { readonly fromSeq: Sequence }) {
          if (range.fromSeq === 1) yield read!;
          else yield* journal.read(id, range);
        },
      },
      snapshots,
      databases: sqlite.databases,
    };
    await expect(followAll(ports, seq)).rejects.toThrow(
      /Earlier events were trimmed\..*\(--archive\)\. Everything before it was printed\. Continue with --from \S+$/,
    );
  } finally {
    sqlite.close();
  }
});
