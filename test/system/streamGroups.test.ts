/** A whole system on four stream groups does what it does on one. */
import { describe, expect, test } from "vitest";
import { Agent } from "agents";
import { body, github, slug, webhook } from "agents/webhooks";
import { agentId, shardOf } from "../../schemas/Address.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { sqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { Databases } from "../../core/database/Databases.ts";
import { Effect } from "effect";
import { openInspector, startTestHost } from "../kit/system.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { journalOf, postGithub, SECRET, TestSocket, useSystems } from "./kit.ts";

interface Counted {
  readonly count: number;
  readonly rung: number;
}

class CountAgent extends Agent<Record<string, unknown>, Counted> {
  override initialState: Counted = { count: 0, rung: 0 };
  override onStart() {
    this.sql`CREATE TABLE IF NOT EXISTS seen (id TEXT)`;
  }
  override async onRequest() {
    const count = this.state.count + 1;
    this.sql`INSERT INTO seen VALUES (${String(count)})`;
    this.setState({ ...this.state, count });
    if (count === 1) await this.schedule(0.2, "ring");
    return new Response(String(count));
  }
  ring() {
    this.setState({ ...this.state, rung: this.state.rung + 1 });
  }
}

const SHARDS = 8;
const GROUPS = 4;
const systems = useSystems();
const folder = tempFolder("stream-groups");

describe("a system on four stream groups", () => {
  test("serves agents of every group, across a host's end and from outside", async () => {
    const system = await systems.start(
      {
        agents: { CountAgent },
        env: { SECRET },
        webhooks: [
          webhook("/webhooks/github", {
            agent: CountAgent,
            verify: github({ secret: "SECRET" }),
            entity: body("repository.full_name", slug),
          }),
        ],
      },
      { shards: SHARDS, streamGroups: GROUPS, leaseTtlMs: 1_000, folder: folder.path },
    );
    const names = Array.from({ length: 24 }, (_, n) => `repo-${n}`);
    const groups = new Set(
      names.map((name) => shardOf(agentId("CountAgent", name), SHARDS) % GROUPS),
    );
    expect(groups.size).toBe(GROUPS);
    const post = (name: string) =>
      postGithub(`${system.url}/webhooks/github`, { repository: { full_name: name } });

    for (const name of names) expect((await post(name)).text).toBe("1");
    const socket = await TestSocket.open(`${system.url}/agents/count-agent/${names[0]}`);
    await socket.until("its schedule has rung", () =>
      socket.states.some((state) => (state as Counted).rung === 1),
    );

    await system.host.stop();
    const host = await startTestHost(system.options, "host-b");
    try {
      for (const name of names) expect((await post(name)).text).toBe("2");
      await socket.until("the state after the hand-over", () =>
        socket.states.some((state) => (state as Counted).count === 2),
      );
      await socket.close();

      const inspector = await openInspector(system.options);
      const databases = await Effect.runPromise(
        Effect.provide(Databases, sqliteDatabases({ folder: undefined })),
      );
      try {
        const listed: string[] = [];
        for await (const { id } of inspector.journal.list("CountAgent")) listed.push(id.name);
        expect(listed.toSorted()).toEqual(names.toSorted());
        await pollUntil("all inputs are done", async () => {
          const depth = await inspector.inbox.depth();
          return depth === 0 || { done: false, saw: depth };
        });
        for (const name of names) {
          const rebuilt = await rebuildAgent(agentId("CountAgent", name), {
            journal: inspector.journal,
            snapshots: inspector.snapshots,
            databases,
          });
          expect(rebuilt.state).toEqual({ count: 2, rung: 1 });
          rebuilt.database.close();
        }
      } finally {
        await inspector.close();
      }
      const heads = await journalOf(system.options, "CountAgent", names[3]!);
      const kinds = heads.flatMap(({ turns }) => turns.map(({ cause }) => cause.kind));
      expect(kinds.filter((kind) => kind === "webhook")).toHaveLength(2);
    } finally {
      await host.stop();
      folder.remove();
    }
  });
});
