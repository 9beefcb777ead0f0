/**
 * The lines of an agent's turns (`core/journal/historyLines`), as its events are read in order, of
 * those that a filter selects. The reading may begin anywhere: an unknown state is looked up when
 * an event needs it. For `agents history` and the console.
 */
import type { JournalHead } from "../../schemas/JournalEvent.ts";
import { stateTextOf, type SnapshotHead } from "../../schemas/Snapshot.ts";
import {
  historyLines,
  needsStateBefore,
  type HistoryLine,
  type Omitted,
} from "../journal/historyLines.ts";
import { containsText, matchesTurn, type HistoryFilter } from "./historyFilter.ts";
import { WholeCauses } from "./WholeCauses.ts";

interface WantedTurns {
  /** Only events from this sequence on. */
  readonly fromSeq?: number | undefined;
  readonly filter?: HistoryFilter;
  readonly omit?: ReadonlyArray<Omitted>;
}

export class TurnLines {
  /** The last event that was read. */
  seq = 0;
  private readonly causes = new WholeCauses();
  /** JSON text. Null: unknown, because the events before were not read. */
  private state: string | undefined | null = null;

  /** `stateAt`: the JSON text of the state at a sequence; called if it is needed and unknown. */
  constructor(
    private readonly wanted: WantedTurns,
    private readonly stateAt: (seq: number) => Promise<string | undefined>,
  ) {}

  /** The first event to read is `seq`. */
  begin(seq: number): void {
    if (seq <= 1) this.state = undefined;
  }

  /** Starts with the agent as it was when its history was trimmed. */
  restart(head: SnapshotHead): void {
    this.seq = head.seq;
    this.state = stateTextOf(head);
  }

  /** The lines of the next event's turns. */
  async of(seq: number, head: JournalHead): Promise<ReadonlyArray<HistoryLine>> {
    const { fromSeq = 0, filter = {}, omit = [] } = this.wanted;
    const { text } = filter;
    const needsState = text !== undefined || !omit.includes("state");
    if (this.state === null && needsState && needsStateBefore(head))
      this.state = await this.stateAt(seq - 1);
    const before = this.state ?? undefined;
    const causes = this.causes.of(head);
    // A text is searched in what the lines omit, too.
    const whole = text === undefined ? undefined : historyLines(seq, head, before);
    const told = historyLines(seq, head, before, {
      isWanted: (turn, n) =>
        seq >= fromSeq &&
        matchesTurn(head, turn, causes[n], filter) &&
        (whole === undefined || containsText(whole.lines[n]!, causes[n] ?? {}, text!)),
      omit,
    });
    const isKnown =
      this.state !== null ||
      head.kind === "destroyed" ||
      head.turns.some(({ state }) => state !== undefined);
    if (isKnown) this.state = (whole ?? told).state;
    this.seq = seq;
    return told.lines;
  }
}
