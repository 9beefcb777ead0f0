/** Used by planted bugs (`plantedBugs.ts`): something is sent before its turn is stored. */
import type { QueueLane } from "../../../core/queue/QueueLane.ts";
import { patch } from "../rig/patch.ts";
import { Ledger, type SubjectEnv } from "../subjects.ts";

/** More than the time between two messages that are sent at once, and than the time of a commit. */
export const LATE_MS = 20;

/** The lane runs what was pushed at once. */
export const sendsEarly = (lane: Pick<QueueLane, "push">): (() => void) =>
  patch(
    lane,
    "push",
    (plain) =>
      function (this: QueueLane, ...args) {
        const id = plain.apply(this, args);
        (this as unknown as { unstored: Set<string> }).unstored.clear();
        this.kick();
        return id;
      },
  );

type Asking = Record<
  "replyToEmail" | "runWorkflow",
  (this: Ledger, ...args: never[]) => Promise<unknown>
>;

/** And a turn goes on after it has asked, else both would be stored at almost the same time. */
export function sendsEarlyInTurn(lane: Pick<QueueLane, "push">, asking: keyof Asking): () => void {
  const offPush = sendsEarly(lane);
  const offAsking = patch(
    Ledger.prototype as unknown as Asking,
    asking,
    (plain) =>
      async function (...args) {
        const asked = await plain.apply(this, args);
        await (this as unknown as { env: SubjectEnv }).env.sim.sleep(LATE_MS);
        return asked;
      },
  );
  return () => {
    offPush();
    offAsking();
  };
}
