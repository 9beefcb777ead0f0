/**
 * The longest time that an idle agent stays in memory while memory runs short, whatever its class
 * says (except `hibernate: false`). The limit shrinks as memory fills, so the agents that were idle
 * longest leave first, and none leaves while there is room.
 */

/** Up to this share of memory there is room, and no limit. */
const FULL_FROM = 0.75;
/** The default of `hibernateAfterSeconds`. A longer time of a class holds while there is room. */
const IDLE_MS_MAX = 30_000;

/** Returns milliseconds; Infinity for no limit. `inUse` is as `HostServices.memoryInUse`. */
export function idleLimitMs(inUse: number): number {
  if (inUse <= FULL_FROM) return Infinity;
  return IDLE_MS_MAX * Math.max(0, (1 - inUse) / (1 - FULL_FROM));
}
