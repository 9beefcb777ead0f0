/**
 * The `RpcTarget`s that code outside any agent passes to agents: a module's handlers. They belong
 * to this process, which receives their calls on a subject of its own. They live as long as those
 * of an agent (`LentTargets`). The process subscribes when it lends its first target.
 */
import type { BusMessage, BusShape } from "../bus/Bus.ts";
import * as Effect from "effect/Effect";
import { methodOfTarget } from "../agent/methods.ts";
import { errorReply, resultTooLarge } from "../call/remoteError.ts";
import { encodeObjectValue } from "../namespace/objectValues.ts";
import type { CallClientSource } from "../namespace/stubTarget.ts";
import { decodedFor } from "../namespace/targetStub.ts";
import type { TimeShape } from "../time/Time.ts";
import type { Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import type { Subjects } from "../../schemas/Subjects.ts";
import { processAddress, type TargetReference } from "../../schemas/bus/TargetCall.ts";
import { LentTargets } from "../rpcTarget/LentTargets.ts";
import type { RpcTarget } from "../rpcTarget/RpcTarget.ts";

interface Parts {
  readonly bus: Pick<BusShape, "answer" | "payloadBytesMax" | "subscribe">;
  readonly subjects: Pick<Subjects, "process">;
  readonly time: Pick<TimeShape, "after" | "id">;
  /** Unique among processes for the life of this one. */
  readonly processId: string;
  /** Makes the calls of stubs that are passed to its targets. */
  readonly client: CallClientSource;
}

export class ProcessTargets {
  private readonly lent: LentTargets;
  private unlisten: (() => Promise<void>) | undefined;

  constructor(private readonly parts: Parts) {
    const { time, processId } = parts;
    const keepAlive = () => () => undefined;
    this.lent = new LentTargets({ id: processAddress(processId), time, keepAlive });
  }

  /** As `LentTargets.lend`. */
  lend(target: RpcTarget): TargetReference {
    const { bus, subjects, processId } = this.parts;
    this.unlisten ??= bus.subscribe(subjects.process(processId), (m) => void this.serve(m), {
      alone: true,
    });
    return this.lent.lend(target);
  }

  /** Ends all targets and stops listening. */
  close(): void {
    void this.unlisten?.();
    this.lent.close();
  }

  private async serve({ data, reply }: BusMessage): Promise<void> {
    const { head: call } = decodeMessage<Call>(data);
    const answer = await this.answerTo(call).catch(errorReply);
    if (reply === undefined) return;
    const { bus } = this.parts;
    const whole = encodeMessage(answer);
    if (whole.length <= bus.payloadBytesMax) return bus.answer(reply, whole);
    bus.answer(reply, encodeMessage(resultTooLarge(whole.length, bus.payloadBytesMax)));
  }

  private async answerTo(call: Call): Promise<CallReply> {
    if (call.kind === "drop") {
      this.lent.end(call.target);
      return { kind: "taken" };
    }
    if (call.kind !== "target") throw new TypeError(`A process takes no call of kind ${call.kind}`);
    const { method: name, args } = call;
    const value = await this.lent.use(call.target, (target) => {
      const method = methodOfTarget(target, name);
      return method.apply(target, decodedFor(this.parts.client, args[0]) as unknown[]);
    });
    const text = encodeObjectValue(value, `the result of ${name}`, (own) => this.lend(own));
    return { kind: "result", value: text, structured: true };
  }
}

/** The process's targets, until the scope closes. */
export const processTargets = (parts: Parts) =>
  Effect.acquireRelease(
    Effect.sync(() => new ProcessTargets(parts)),
    (targets) => Effect.sync(() => targets.close()),
  );
