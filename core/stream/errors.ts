/** What writing to a durable stream can throw. Each message says which stream, and what to do. */
import * as Data from "effect/Data";

/** A write to a stream that has ended or failed. Nothing has changed. */
export class StreamOver extends Data.TaggedError("StreamOver")<{
  readonly key: string;
  readonly status: "ended" | "failed";
}> {
  override get message(): string {
    return `the stream "${this.key}" has ${this.status}: check isOver before writing, or remove() it and write a new one`;
  }
}

/** A write that would make a stream larger than its `sizeMax`. Nothing has changed. */
export class StreamTooLarge extends Data.TaggedError("StreamTooLarge")<{
  readonly key: string;
  readonly sizeMax: number;
}> {
  override get message(): string {
    return `the chunk was not written: the stream "${this.key}" would be larger than ${this.sizeMax} characters of JSON. Raise its option sizeMax, or end it and begin another`;
  }
}

/** A write of a new stream while the agent has as many open ones as it may keep. */
export class TooManyStreams extends Data.TaggedError("TooManyStreams")<{
  readonly key: string;
  readonly streamsMax: number;
}> {
  override get message(): string {
    return `the stream "${this.key}" was not started: the agent has ${this.streamsMax} open streams. End those that are done`;
  }
}
