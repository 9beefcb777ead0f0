/** Agents that exist only as journals: events of one turn, with states of about 400 bytes. */
import { agentId, type AgentId } from "../../../schemas/Address.ts";
import { encodeEvent } from "../../../schemas/JournalEvent.ts";
import { BenchFailed } from "../Bench.ts";
import type { BenchHost } from "./BenchHost.ts";
import { inParallel } from "../../../services/cli/agents/inParallel.ts";

/** Enough to keep the broker busy. */
export const STORING_AT_ONCE = 256;
/** The state's text. */
const BALLAST = "x".repeat(300);

export const benchAgent = (n: number): AgentId => agentId("BenchAgent", `agent-${n}`);

/** Resolves to the sequence of the turn's event. `after`: that of the agent's last; 0: none. */
export async function storeTurn(
  host: BenchHost,
  n: number,
  turn: number,
  after: number,
): Promise<number> {
  const id = benchAgent(n);
  const state = {
    plan: ["free", "team", "business"][n % 3],
    stars: (n * 7919) % 1_000,
    turn,
    text: BALLAST,
  };
  const data = encodeEvent({
    id: `${n}-${after}`,
    agent: [id.class, id.name],
    kind: "turns",
    host: "bench",
    epoch: 1,
    time: Date.now(),
    turns: [{ cause: { kind: "webhook", id: `${n}` }, state: { set: state } }],
    after,
  });
  const { journal } = host.services;
  const signal = AbortSignal.timeout(30_000);
  const stored = await journal.append(id, data, { expectedSeq: after as never, signal });
  if (stored._tag !== "Stored") throw new BenchFailed(`${id.name} was not stored: ${stored._tag}`);
  return stored.seq;
}

/** Resolves to each agent's last sequence. */
export async function storeAgents(
  host: BenchHost,
  agents: number,
  turns: number,
): Promise<number[]> {
  const seqs = Array.from({ length: agents }, () => 0);
  for (let turn = 0; turn < turns; turn++)
    await inParallel(seqs.keys(), STORING_AT_ONCE, async (n) => {
      seqs[n] = await storeTurn(host, n, turn, seqs[n]!);
    });
  return seqs;
}
