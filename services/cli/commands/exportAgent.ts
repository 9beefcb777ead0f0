/**
 * `agents export <class> <name>`: an agent's whole journal as JSON lines (`schemas/AgentFile`), for `agents import`.
 * Everything else of the agent is made of it: state, SQL, schedules, queue, history. The running agent is not asked.
 */
import type { TimeShape } from "../../../core/time/Time.ts";
import { addressKey, type Sequence } from "../../../schemas/Address.ts";
import { agentFileEnd, agentFileEvent, agentFileHead } from "../../../schemas/AgentFile.ts";
import { CorruptFrame } from "../../../schemas/Frame.ts";
import { decodeEvent } from "../../../schemas/JournalEvent.ts";
import { failed } from "../CliError.ts";
import { findAgent } from "../findAgent.ts";
import type { ReadPorts } from "../../wiring/Joins.ts";
import type { Terminal } from "../Terminal.ts";

/** Of a stream: they count from 1. */
const FIRST = 1 as Sequence;

export async function exportAgent(
  { journal }: ReadPorts,
  terminal: Terminal,
  time: Pick<TimeShape, "nowMs">,
  { className, name }: { readonly className: string; readonly name: string },
): Promise<void> {
  const id = await findAgent(journal, className, name);
  terminal.out(agentFileHead(id, time.nowMs()));
  let events = 0;
  try {
    for await (const event of journal.read(id, { fromSeq: FIRST })) {
      decodeEvent(event.data); // a copy of what is damaged would be found out too late
      terminal.out(agentFileEvent(event));
      events++;
    }
  } catch (error) {
    if (!(error instanceof CorruptFrame)) throw error;
    throw failed(
      `The journal of ${addressKey(id)} is damaged, the copy is not complete: ${error.message}`,
    );
  }
  terminal.out(agentFileEnd(events));
  terminal.err(`${addressKey(id)}: ${events} ${events === 1 ? "event" : "events"}`);
}
