/**
 * `agents restore <class> <name> --at …`: shows what would change, and with `--yes` asks the
 * agent's host to put it back (`services/host/restoreAgent`). The command rebuilds the point, which
 * may be in an archive that hosts do not read.
 */
import { AgentUnreachable, CallDenied } from "../../../core/call/AgentUnreachable.ts";
import { RESTORE_PREFIX } from "../../../core/journal/DoneSet.ts";
import { compareAgents } from "../../../core/history/compareAgents.ts";
import { keepSent } from "../../../core/restore/keepSent.ts";
import { rebuildAgent } from "../../../core/journal/rebuildAgent.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { addressKey, type AgentId } from "../../../schemas/Address.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import type { Point } from "../options/pointOptions.ts";
import { failed, notFound, usage } from "../terminal/CliError.ts";
import type { Terminal } from "../terminal/Terminal.ts";
import { notReached } from "./notReached.ts";
import { wakeAgent } from "./wakeAgent.ts";
import { withAgentAt } from "./withAgentAt.ts";

/** Longer than the time that turns have to end. */
const TRY_MS = 15_000;
/** Together long enough for a host to die, another to take over, and turns to end there. */
const TRIES = 3;

interface PutBackOptions {
  readonly className: string;
  readonly name: string;
  readonly at: Point;
  readonly yes: boolean;
  readonly json: boolean;
}

/** The point, and how the agent at that point differs. */
interface Planned {
  readonly id: AgentId;
  readonly seq: number;
  readonly time: string;
  /** The agent's current sequence. */
  readonly nowSeq: number;
  readonly life: number;
  /** A snapshot of the point. */
  readonly snapshot: Uint8Array;
  readonly differences: ReadonlyArray<string>;
}

/**
 * Throws `CliError` without `yes`, if there is no such agent or point, and if no host put it back.
 * `--json` prints `{class, name, at: {seq, time}, differences, restored}`, the last null without
 * `yes`, else the event's sequence.
 */
export async function putBack(
  ports: ReadPorts,
  terminal: Terminal,
  time: Pick<TimeShape, "id" | "nowMs">,
  options: PutBackOptions,
): Promise<void> {
  const { yes, json } = options;
  const plan = await planOf(ports, options);
  const { id, differences } = plan;
  const point = `event ${plan.seq}, ${plan.time}`;
  if (plan.seq === plan.nowSeq)
    throw failed(`${addressKey(id)} is at that point already: event ${plan.seq} is its last.`);
  if (!json) {
    terminal.err(`${addressKey(id)}: from event ${plan.nowSeq} to ${point}`);
    for (const line of differences) terminal.out(line);
    if (differences.length === 0) terminal.err("State and rows do not differ.");
  }
  const restored = yes ? await restore(ports, plan, `${RESTORE_PREFIX}${time.id()}`) : null;
  if (json) {
    const { class: className, name } = id;
    const { seq, time: when } = plan;
    const told = { class: className, name, at: { seq, time: when }, differences, restored };
    terminal.out(JSON.stringify(told));
  }
  if (restored === null)
    throw usage(
      `Nothing was changed. Add --yes to restore it to ${point}, which also reverts what it does until then.`,
    );
  await wakeAgent(ports, time, id);
  if (json) return;
  terminal.err(
    `${addressKey(id)} is as it was after ${point}. This is event ${restored}. To undo it: agents restore ${id.class} ${id.name} --at ${restored - 1} --yes`,
  );
}

async function planOf(ports: ReadPorts, options: PutBackOptions): Promise<Planned> {
  return withAgentAt(ports, options, async (id, then) => {
    const now = await rebuildAgent(id, ports);
    try {
      if (then.seq > now.seq)
        throw notFound(
          `${addressKey(id)} has no event ${then.seq}: its last is ${now.seq}. "agents history" lists them.`,
        );
      const snapshot = then.image.encode(then.database.image());
      keepSent(now.database, then.database);
      return {
        id,
        seq: then.seq,
        time: new Date(then.time).toISOString(),
        nowSeq: now.seq,
        life: now.image.life,
        snapshot,
        differences: compareAgents(now, then, EMPTY),
      };
    } finally {
      now.database.close();
    }
  });
}

/** An empty database as the starting point, so that everything is compared. */
const EMPTY = { query: () => ({ columns: [], rows: [], wrote: false, rowsWritten: 0 }) };

/** Returns the event's sequence. Throws `CliError`. */
async function restore(
  { calls }: ReadPorts,
  { id, life, snapshot }: Planned,
  key: string,
): Promise<number> {
  const bounds = { body: snapshot, deadlineMs: TRY_MS, repeatable: true };
  for (let tries = 1; ; tries++)
    try {
      const { reply } = await calls.call(id, { kind: "restore", key, life }, bounds);
      if (reply.kind === "result") return Number(reply.value);
      const why = reply.kind === "error" ? reply.message : reply.kind;
      throw failed(`${addressKey(id)} was not restored: ${why}. Its host's log has details.`);
    } catch (error) {
      // Repeating is safe: a host that has already restored it answers with the same result.
      const mayHelp = error instanceof AgentUnreachable && !(error instanceof CallDenied);
      if (mayHelp && tries < TRIES) continue;
      throw notReached(
        error,
        'A host restores it: start one (agents host). "agents history" shows whether it was restored.',
      );
    }
}
