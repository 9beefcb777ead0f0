/**
 * How long an idle agent may stay in memory when memory runs short, whatever its class says (but `hibernate: false`): the
 * fuller, the shorter, so that the longest idle leave first and nobody does while there is room.
 */

/** Below it there is room. */
const FULL_FROM = 0.75;
/** As the default of `hibernateAfterSeconds`: a class that asks for more gets that while there is room. */
const IDLE_MS_MAX = 30_000;

/** Milliseconds; `inUse` as `HostServices.memoryInUse`. */
export function idleLimitMs(inUse: number): number {
  if (inUse <= FULL_FROM) return Infinity;
  return IDLE_MS_MAX * Math.max(0, (1 - inUse) / (1 - FULL_FROM));
}
