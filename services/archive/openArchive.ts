/** The archive of an installation, by its URL. */
import { fileURLToPath } from "node:url";
import type { SegmentArchiveOptions } from "./SegmentArchive.ts";
import { FolderStore } from "./FolderStore.ts";
import { SegmentArchive } from "./SegmentArchive.ts";

/** `url`: one without a fault (`archiveFault`). Nothing is opened before it is used. */
export const openArchive = (
  url: string,
  options: Omit<SegmentArchiveOptions, "store">,
): SegmentArchive =>
  new SegmentArchive({ ...options, store: new FolderStore(fileURLToPath(url), options.time.id) });
