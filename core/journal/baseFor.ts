/**
 * Chooses among an agent's stored bases (`Snapshots`). A base is stored before the events that it
 * covers are trimmed, so the journal need not begin at a stored base.
 */
import type { AgentId } from "../../schemas/Address.ts";
import { ifReadable } from "../../schemas/Frame.ts";
import { decodeSnapshot, type Snapshot } from "../../schemas/Snapshot.ts";
import type { StoredBases } from "./Snapshots.ts";

/** `bytes`: the frame as it was stored. */
export interface Base extends Snapshot {
  readonly bytes: Uint8Array;
}

/**
 * The base at event `after`, where a reader of the journal found a gap. Otherwise a later base that
 * is stored twice, which shows that it was read back and compared. Undefined if neither can be
 * read.
 */
export function baseFor(id: AgentId, stored: StoredBases, after: number): Base | undefined {
  const found = stored.copies.flatMap((bytes) => readSnapshot(id, bytes) ?? []);
  const exact = found.find(({ head }) => head.seq === after);
  if (exact !== undefined) return exact;
  return settledBase(id, stored, after);
}

/** The newest that can be read. */
export const newestBase = (id: AgentId, { copies }: StoredBases): Base | undefined =>
  copies.flatMap((bytes) => readSnapshot(id, bytes) ?? [])[0];

/**
 * The newest base if it is stored twice, which shows that it was read back and compared. Undefined
 * if it is older than `after`.
 */
export function settledBase(id: AgentId, stored: StoredBases, after = 0): Base | undefined {
  const [newest, other] = stored.copies;
  if (newest === undefined || other === undefined || !equal(newest, other)) return undefined;
  const base = readSnapshot(id, newest);
  return base !== undefined && base.head.seq >= after ? base : undefined;
}

/** Undefined for a snapshot that can't be read, or is another agent's. */
export function readSnapshot(id: AgentId, bytes: Uint8Array | undefined): Base | undefined {
  if (bytes === undefined) return undefined;
  const snapshot = ifReadable(() => decodeSnapshot(bytes));
  if (snapshot === undefined) return undefined;
  const [className, name] = snapshot.head.agent;
  return className === id.class && name === id.name ? { ...snapshot, bytes } : undefined;
}

export function equal(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
