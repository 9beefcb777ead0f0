/** The result of one read of a durable stream (`Streams.look`). */
import type { StreamRow } from "./StreamTable.ts";

export type Look =
  | { readonly _tag: "Absent" }
  | {
      readonly _tag: "Found";
      readonly id: string;
      /** The reader's chunks are of another stream: what follows begins with the first chunk. */
      readonly restarted: boolean;
      readonly chunks: ReadonlyArray<unknown>;
      /** Number of the last of them, or of the reader's last. */
      readonly sequence: number;
      /** The reader has all that is stored. */
      readonly caughtUp: boolean;
      /** It is over, and the reader has all of it. */
      readonly over: Pick<StreamRow, "status" | "result" | "error"> | undefined;
    };
