/** A process whose clock is days off does not serve (`services/nats/checkClock`). */
import { Effect } from "effect";
import { expect, it } from "vitest";
import { Subjects } from "../../schemas/Subjects.ts";
import { checkClock } from "../../services/nats/checkClock.ts";
import { useNats } from "./useNats.ts";

const used = useNats();
const HOUR_MS = 3_600_000;

it("refuses a clock that is more than a day from the broker's, and names both times", async () => {
  const nats = await used.open(new Subjects(), { shards: 1 });
  const checked = (offMs: number) =>
    Effect.runPromise(checkClock(nats, { nowMs: () => Date.now() + offMs }));
  for (const hours of [-23, 0, 23]) await checked(hours * HOUR_MS);
  for (const hours of [-25, 25, 24 * 365]) {
    const shown = new Date(Date.now() + hours * HOUR_MS).toISOString().slice(0, 13);
    await expect(checked(hours * HOUR_MS)).rejects.toThrow(`this machine's clock shows ${shown}`);
  }
});
