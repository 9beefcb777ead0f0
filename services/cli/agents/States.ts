/**
 * Converts events of many agents to lines, turn by turn, as they arrive
 * (`core/journal/historyLines`). An event may contain only a change of the state, and an unknown
 * state is rebuilt. For `agents tail` and `agents export --follow`.
 */
import { decodeStored } from "../../../core/journal/decodeStored.ts";
import { historyLines, needsStateBefore } from "../../../core/journal/historyLines.ts";
import type { StoredEvent } from "../../../core/journal/Journal.ts";
import { rebuildAgent } from "../../../core/journal/rebuildAgent.ts";
import { addressKey, type AgentId } from "../../../schemas/Address.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";

/** Agents whose state is remembered. The state of others is rebuilt when they appear again. */
const STATES_MAX = 1_000;

export class States {
  private readonly known = new Map<string, string | undefined>();

  constructor(private readonly ports: ReadPorts) {}

  /** A line for each turn of the event. Rejects as `rebuildAgent`, or with `CorruptFrame`. */
  async tell(id: AgentId, stored: StoredEvent) {
    const { seq } = stored;
    const { head } = decodeStored(stored, addressKey(id));
    const key = addressKey(id);
    const known = this.known.has(key);
    const before =
      known || !needsStateBefore(head) ? this.known.get(key) : await this.before(id, seq);
    const { lines, state } = historyLines(seq, head, before);
    // An unknown state stays unknown after an event that does not contain it.
    if (known || head.turns.some((turn) => turn.state !== undefined)) this.remember(key, state);
    return lines;
  }

  private remember(key: string, state: string | undefined): void {
    this.known.delete(key);
    this.known.set(key, state);
    const [oldest] = this.known.keys();
    if (this.known.size > STATES_MAX) this.known.delete(oldest!);
  }

  private async before(id: AgentId, seq: number): Promise<string | undefined> {
    const { image, database } = await rebuildAgent(id, { ...this.ports, atSeq: seq - 1 });
    database.close();
    return image.state;
  }
}
