/**
 * When an agent is snapshotted: off the turn's path, so that activation stays short. A snapshot costs
 * its own size, so it is due when the journal since the last one outweighs it.
 */
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { HostServices } from "./HostServices.ts";

/** Journal bytes since the last snapshot, below which none is due for their size. */
const BYTES_MIN = 1024 * 1024;
/** Events since the last snapshot: replaying as many takes about 20 ms. */
const EVENTS_MAX = 1000;
/** At hibernation fewer than this are left to replay: cheaper than a snapshot of every agent touched once. */
const EVENTS_AT_REST = 32;

export class SnapshotPolicy {
  private readonly agent: ActiveAgent;
  private readonly services: HostServices;
  private lastBytes = 0;
  private writing = false;

  constructor(agent: ActiveAgent, services: HostServices) {
    this.agent = agent;
    this.services = services;
  }

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

  /** Never throws: who leaves memory leaves it, and its host looks at the next. */
  beforeHibernation(): void {
    if (this.agent.image.eventsSince < EVENTS_AT_REST || this.writing) return;
    try {
      this.write();
    } catch (error) {
      // Its pages can't be read from a disk that fails. The journal has it all, and the cache goes with the database.
      const { log } = this.services;
      log.warn("a snapshot could not be taken", { ...this.agent.id, error: String(error) });
    }
  }

  private write(): void {
    const { agent, services } = this;
    // Taken now, in one go: image and pages are those of the same event.
    const data = agent.image.encode(agent.database.image());
    agent.image.eventsSince = 0;
    agent.image.bytesSince = 0;
    this.lastBytes = data.length;
    this.writing = true;
    const stored = services.snapshots
      .put(agent.id, data)
      .then(() => services.metrics.snapshots())
      .catch((error: unknown) =>
        // The journal has it all: the next one comes when it is due again.
        services.log.warn("a snapshot could not be stored", { ...agent.id, error: String(error) }),
      )
      .finally(() => {
        this.writing = false;
        services.storing.delete(stored);
      });
    services.storing.add(stored);
  }
}
