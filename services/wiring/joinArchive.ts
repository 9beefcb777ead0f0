/**
 * Joins the archive of an installation with the broker, which tells installations apart and lets
 * one process erase at a time. For the process that trims, and for commands.
 */
import type { LeasesShape } from "../../core/lease/Leases.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { eraseAlone } from "../archive/eraseAlone.ts";
import { openArchive } from "../archive/openArchive.ts";
import type { SegmentArchive } from "../archive/SegmentArchive.ts";
import type { NatsShape } from "../nats/client/Nats.ts";
import { streamsOf } from "../nats/readStored.ts";

interface ArchiveParts {
  readonly nats: NatsShape;
  readonly leases: LeasesShape;
  readonly time: TimeShape;
}

/** `url`: one without a fault (`archiveFault`). Nothing is opened before it is used. */
export const joinArchive = (url: string, { nats, leases, time }: ArchiveParts): SegmentArchive =>
  openArchive(url, {
    namespace: nats.subjects.namespace,
    time,
    // A copy of the broker's files has the same creation time.
    installation: async () => `since ${(await streamsOf(nats, "journal"))[0]!.created}`,
    alone: eraseAlone(leases, time),
  });
