/**
 * A state whose JSON text is another one once it has been read and written (`JSON.rawJSON`): later
 * events splice that very text, so whatever replaces trimmed events has to keep it.
 */
import { expect, it } from "vitest";
import { agentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { decodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";
import { decodeSnapshot } from "../../schemas/Snapshot.ts";
import { TurnLines } from "../../core/history/TurnLines.ts";
import { AgentImage } from "../../core/journal/AgentImage.ts";
import { applyEvent } from "../../core/journal/applyEvent.ts";
import { eventOfBase } from "../../core/journal/eventOfBase.ts";
import { diffState } from "../../core/journal/stateChange.ts";
import { restoreEvent } from "../../core/restore/restoreEvent.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";

const ID = agentId("Ledger", "one");
const textOf = (n: number) => `{"total":1.00,"text":"${"x".repeat(2_000)}","n":${n}}`;

function imageOf(text: string): AgentImage {
  const image = new AgentImage(ID);
  [image.seq, image.state, image.epoch] = [4 as Sequence, text, 1 as Epoch];
  return image;
}

const snapshotOf = (image: AgentImage) => decodeSnapshot(image.encode(new Uint8Array(0)));

/** The event after `imageOf(textOf(7))`, which makes it `textOf(8)`. */
const next = (after: number): JournalHead => ({
  id: "next",
  agent: [ID.class, ID.name],
  kind: "turns",
  host: "h",
  epoch: 1,
  time: 2,
  turns: [
    {
      cause: { kind: "request" },
      state: JSON.parse(diffState(textOf(7), textOf(8), true)) as { set: unknown },
    },
  ],
  after,
});

it("a base as an event keeps it, character by character", () => {
  const data = eventOfBase(snapshotOf(imageOf(textOf(7))));
  const copy = new AgentImage(ID);
  applyEvent(copy, 1 as Sequence, decodeEvent(data).head);
  expect(copy.state).toBe(textOf(7));
  applyEvent(copy, 2 as Sequence, next(1));
  expect(copy.state).toBe(textOf(8));
});

it("a trimmed history is read with it", async () => {
  const lines = new TurnLines({}, () => Promise.resolve(undefined));
  lines.restart(snapshotOf(imageOf(textOf(7))).head);
  const [line] = await lines.of(5, next(4));
  expect(line).toMatchObject({ state: JSON.parse(textOf(8)) as unknown });
});

it("a restore brings it back", async () => {
  const opened = await openSqliteDatabases({ folder: undefined });
  const { database } = opened.databases.open(ID);
  const image = imageOf(textOf(8));
  const { data } = restoreEvent({
    image,
    database,
    databases: opened.databases,
    to: snapshotOf(imageOf(textOf(7))),
    key: "restore:1",
    host: "h",
    epoch: 1 as Epoch,
    time: { id: () => "event", nowMs: () => 3 },
  });
  applyEvent(image, 5 as Sequence, decodeEvent(data).head);
  expect(image.state).toBe(textOf(7));
  database.close();
  await opened.close();
});
