/**
 * An agent as of one sequence of its journal: everything that is committed. Only `applyEvent`
 * changes it, live and in replay; the database's pages are applied beside it.
 */
import type { AgentId, Epoch, Sequence } from "../../schemas/Address.ts";
import {
  encodeSnapshot,
  stateTextOf,
  type ArchivePlace,
  type SnapshotHead,
} from "../../schemas/Snapshot.ts";
import { DoneSet } from "./DoneSet.ts";
import { OpenParts } from "./OpenParts.ts";
import { needsText } from "./stateChange.ts";
import { SparseMap, withEntry } from "../collections/sparse.ts";

/** An input that began and is not done. */
interface Begun {
  /** Runs that count so far, including the one that wrote this, unless it has completed a step. */
  readonly attempts: number;
  /** Inbox sequence of the copy that ran last; 0 for a job, which has none. */
  readonly inboxSeq: number;
}

/** Steps that are done, by key: JSON text of their results, undefined for `undefined`. */
type DoneSteps = Map<string, string | undefined>;

/**
 * The key of the record that the undoing of a turn has begun (`core/step/undoSteps`). No step has
 * this key, because the keys of steps begin with a number.
 */
export const UNDOING = "undoing";

export class AgentImage {
  /** Sequence of the last applied event, or 0. */
  seq = 0 as Sequence;
  /** Epoch of the last applied event, or 0. */
  epoch = 0 as Epoch;
  /** When the last event was written. */
  timeMs = 0;
  /** JSON text of the state; undefined when it was never set. */
  state: string | undefined = undefined;
  /** False: this process wrote it whole, and replay may find another text (`diffState`). */
  stateIsExact = true;
  done = new DoneSet();
  readonly begun = new SparseMap<string, Begun>();
  /** By the key of an input that is in `begun`. */
  steps: Map<string, DoneSteps> | undefined = undefined;
  /** The parts that the next owner undoes first. Undefined: none. */
  parts: OpenParts | undefined = undefined;
  /** Sequence of the last `destroyed` event; 0 in its first life. */
  life = 0;
  /** The entity that it was created for: the first whose `slug` is its name. Undefined: none. */
  entity: string | undefined = undefined;
  /** Size of the database after the last event, in pages. */
  pages = 0;
  /** Journal events since the last snapshot, and their bytes: what a wake elsewhere must replay. */
  eventsSince = 0;
  bytesSince = 0;

  constructor(readonly id: AgentId) {}

  /** Keys of an input's done steps, without the records of their undoing. */
  stepsDone(input: string): ReadonlyArray<string> {
    return [...(this.steps?.get(input)?.keys() ?? [])].filter((key) => /^\d/.test(key));
  }

  /** The failure of an input's turn, once its steps are being undone. */
  undoing(input: string): string | undefined {
    const text = this.steps?.get(input)?.get(UNDOING);
    return text === undefined ? undefined : (JSON.parse(text) as string);
  }

  /**
   * A `Snapshot` frame; `image` is the database's committed image, or nothing for a local cache's
   * core. `archive`: for a base.
   */
  encode(image?: Uint8Array, archive?: ArchivePlace): Uint8Array {
    const head: SnapshotHead = {
      agent: [this.id.class, this.id.name],
      seq: this.seq,
      epoch: this.epoch,
      time: this.timeMs,
      done: this.done.toArray(),
      begun: Array.from(this.begun, ([key, b]) => [key, b.attempts, b.inboxSeq] as const),
      ...(this.steps === undefined ? {} : { steps: Array.from(this.steps, encodeSteps) }),
      ...(this.parts === undefined ? {} : { parts: this.parts.toSnapshot() }),
      ...(this.life === 0 ? {} : { life: this.life }),
      ...(this.entity === undefined ? {} : { entity: this.entity }),
      ...(this.stateIsExact && needsText(this.state) ? { stateText: this.state } : {}),
      pages: this.pages,
      ...(image !== undefined || this.eventsSince === 0
        ? {}
        : { since: [this.eventsSince, this.bytesSince] as const }),
      ...(archive === undefined ? {} : { archive }),
    };
    return encodeSnapshot(head, image, this.state);
  }

  /** The image that a snapshot's head describes. The caller has checked that it is this agent's. */
  static fromSnapshot(id: AgentId, head: SnapshotHead): AgentImage {
    const image = new AgentImage(id);
    image.seq = head.seq as Sequence;
    image.epoch = head.epoch as Epoch;
    image.timeMs = head.time;
    image.state = stateTextOf(head);
    image.done = DoneSet.from(head.done);
    for (const [key, attempts, inboxSeq] of head.begun)
      image.begun.set(key, { attempts, inboxSeq });
    for (const [key, steps] of head.steps ?? [])
      image.steps = withEntry(image.steps, key, decodeSteps(steps));
    image.parts = OpenParts.fromSnapshot(head.parts);
    image.life = head.life ?? 0;
    image.entity = head.entity;
    image.pages = head.pages;
    [image.eventsSince, image.bytesSince] = head.since ?? [0, 0];
    return image;
  }
}

type EncodedSteps = NonNullable<SnapshotHead["steps"]>[number];

const encodeSteps = ([input, steps]: readonly [string, DoneSteps]): EncodedSteps => [
  input,
  Array.from(steps, ([key, text]) =>
    text === undefined ? [key] : [key, JSON.parse(text) as unknown],
  ),
];

const decodeSteps = (steps: EncodedSteps[1]): DoneSteps =>
  new Map(
    steps.map(([key, ...result]) => [
      String(key),
      result.length === 0 ? undefined : JSON.stringify(result[0]),
    ]),
  );
