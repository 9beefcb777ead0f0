/**
 * Notifies every host that an agent was erased, so that each removes its local files of the agent,
 * and waits for the answers. `services/host/serveErasures` answers. Used by `joinReader`, for
 * `agents erase`.
 */
import type { BusShape } from "../../core/bus/Bus.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type { AgentId } from "../../schemas/Address.ts";
import { decodeMessage, type ErasureReply } from "../../schemas/bus/message.ts";
import type { Subjects } from "../../schemas/Subjects.ts";

/** A host removes two files, between its turns. */
const ANSWERS_TIMEOUT_MS = 5_000;

interface TellErasedPorts {
  readonly bus: Pick<BusShape, "subscribe" | "publish">;
  readonly time: Pick<TimeShape, "after">;
  readonly subjects: Subjects;
  /** Returns a subject without other listeners. */
  readonly newInbox: () => string;
}

/** Resolves to those of `hosts` that have answered in time. */
export async function tellErased(
  { bus, time, subjects, newInbox }: TellErasedPorts,
  id: AgentId,
  hosts: ReadonlyArray<string>,
): Promise<ReadonlyArray<string>> {
  const told = new Set<string>();
  const inbox = newInbox();
  let done = (): void => undefined;
  const answered = new Promise<void>((resolve) => (done = resolve));
  const end = bus.subscribe(inbox, ({ data }) => {
    if (data.length === 0) return; // the broker reports that no host listens
    told.add(decodeMessage<ErasureReply>(data).head.host);
    if (hosts.every((host) => told.has(host))) done();
  });
  const cancel = time.after(ANSWERS_TIMEOUT_MS, done);
  bus.publish(subjects.erasure(id), new Uint8Array(0), inbox);
  if (hosts.length > 0) await answered;
  cancel();
  await end();
  return hosts.filter((host) => told.has(host));
}
