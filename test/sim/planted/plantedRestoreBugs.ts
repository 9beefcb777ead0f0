/** Planted bugs of restores (`plantedBugs.ts`): rows that stay, restores that are done again. */
import { decodeEvent, encodeEvent } from "../../../schemas/JournalEvent.ts";
import type { PlantedBug } from "./plantedBugs.ts";

/** Changes the event of a restore; all others are stored as they are. */
const ofRestore =
  (change: (event: ReturnType<typeof decodeEvent>) => Uint8Array) =>
  (data: Uint8Array): Uint8Array => {
    const event = decodeEvent(data);
    return event.head.turns.some(({ restored }) => restored !== undefined) ? change(event) : data;
  };

export const RESTORE_BUGS: ReadonlyArray<PlantedBug> = [
  {
    name: "a restore puts the state back, and not the rows",
    caughtBy: 10,
    breaks: ["I23"],
    event: ofRestore(({ head: { pages: _pages, ...head } }) => encodeEvent(head)),
  },
  {
    name: "a restore that is asked for again is done again",
    caughtBy: 70,
    breaks: ["I23"],
    event: ofRestore(({ head, delta }) =>
      encodeEvent({ ...head, turns: head.turns.map(({ done: _done, ...turn }) => turn) }, delta),
    ),
  },
];
