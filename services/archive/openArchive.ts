/** The archive of an installation, by its URL. */
import { fileURLToPath } from "node:url";
import type { ArchiveStore } from "./ArchiveStore.ts";
import { SegmentArchive, type SegmentArchiveOptions } from "./SegmentArchive.ts";
import { FolderStore } from "./FolderStore.ts";
import { S3Store } from "./S3Store.ts";

type Options = Omit<SegmentArchiveOptions, "store">;

/** `url`: one that `archiveFault` accepts. Nothing is opened before the first use. */
export const openArchive = (url: string, options: Options): SegmentArchive =>
  new SegmentArchive({ ...options, store: storeOf(url, options) });

function storeOf(url: string, { time }: Options): ArchiveStore {
  const { protocol, host, pathname } = new URL(url);
  return protocol === "s3:"
    ? new S3Store({ bucket: host, prefix: pathname.replace(/^\/|\/$/g, "") })
    : new FolderStore(fileURLToPath(url), time.id);
}
