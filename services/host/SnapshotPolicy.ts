/**
 * Decides when an agent is snapshotted, and stores the snapshot off the turn's path. Snapshots keep
 * activation short. A snapshot costs its own size, so one is due when the journal since the last
 * one outweighs it.
 */
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { HostServices } from "./HostServices.ts";

/** Below this many journal bytes since the last snapshot, none is due for size. */
const BYTES_MIN = 1024 * 1024;
/** From this many events since the last snapshot one is due: replaying them takes about 20 ms. */
const EVENTS_MAX = 1000;
/**
 * With fewer events than this, hibernation takes no snapshot: replaying them is cheaper than a
 * snapshot of every agent that was used once.
 */
const EVENTS_AT_REST = 32;

export class SnapshotPolicy {
  private lastBytes = 0;
  private writing = false;

  constructor(
    private readonly agent: ActiveAgent,
    private readonly services: HostServices,
  ) {}

  /** An event of `bytes` is stored and applied: begins a snapshot if one is due. */
  committed(bytes: number): void {
    const { image } = this.agent;
    image.eventsSince++;
    image.bytesSince += bytes;
    const half = Math.max(this.agent.database.imageBytes, this.lastBytes) / 2;
    const due =
      image.bytesSince > Math.max(BYTES_MIN, half) ||
      (image.eventsSince >= EVENTS_MAX && image.bytesSince > half);
    if (due && !this.writing) this.write();
  }

  /** Never throws, so that a failed snapshot does not stop hibernation. */
  beforeHibernation(): void {
    if (this.agent.image.eventsSince < EVENTS_AT_REST || this.writing) return;
    try {
      this.write();
    } catch (error) {
      // A failing disk cannot read the pages. The journal holds every event, and the cache is
      // removed with the database.
      const { log } = this.services;
      log.warn("a snapshot could not be taken", { ...this.agent.id, error: String(error) });
    }
  }

  private write(): void {
    const { agent, services } = this;
    // Taken synchronously, so that image and pages are those of the same event.
    const data = agent.image.encode(agent.database.image());
    agent.image.eventsSince = 0;
    agent.image.bytesSince = 0;
    this.lastBytes = data.length;
    this.writing = true;
    const stored = services.snapshots
      .put(agent.id, data)
      .then(() => services.metrics.ofClass(agent.id.class).snapshot())
      .catch((error: unknown) =>
        // The journal holds every event. The next snapshot is taken when one is due again.
        services.log.warn("a snapshot could not be stored", { ...agent.id, error: String(error) }),
      )
      .finally(() => {
        this.writing = false;
        services.storing.delete(stored);
      });
    services.storing.add(stored);
  }
}
