/** What the rules of an archive run against: a folder, and a bucket of a server that speaks S3. */
import type { ArchiveStore } from "../../services/archive/ArchiveStore.ts";
import { FolderStore } from "../../services/archive/FolderStore.ts";
import { S3Store } from "../../services/archive/S3Store.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { KEY, startS3, type S3Server } from "../kit/s3Server.ts";
import { tempFolder } from "../kit/tempFolder.ts";

export interface ArchiveBackend {
  readonly store: ArchiveStore;
  readonly close: () => Promise<void> | void;
}

export const s3StoreOf = ({ bucket, endpoint }: S3Server, prefix: string): S3Store =>
  new S3Store({
    bucket,
    prefix,
    client: { endpoint, region: "us-east-1", credentials: KEY, forcePathStyle: true },
  });

export const BACKENDS: ReadonlyArray<readonly [string, () => Promise<ArchiveBackend>]> = [
  [
    "a folder",
    async () => {
      const folder = tempFolder("archive");
      return { store: new FolderStore(folder.path, machineTime.id), close: folder.remove };
    },
  ],
  [
    "a bucket",
    async () => {
      const server = await startS3();
      return { store: s3StoreOf(server, "agents/kept"), close: server.stop };
    },
  ],
];
