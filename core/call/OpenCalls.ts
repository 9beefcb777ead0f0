/**
 * The calls that a shard has accepted and not answered yet. Each is answered once: by its agent, or
 * when the shard is lost first.
 */
import type { CallAnswer } from "./CallAnswer.ts";
import { HIDDEN_ERROR } from "./remoteError.ts";
import { LinkedList } from "../collections/LinkedList.ts";
import type { LogShape } from "../telemetry/Log.ts";

export class OpenCalls {
  /** How many there are. */
  size = 0;
  /** One per open call: answers its caller when the shard is lost. */
  private readonly interrupts = new LinkedList<() => void>();

  /** `whenLost`: the answer to a call that has begun when the shard is lost. */
  constructor(
    private readonly log: Pick<LogShape, "error">,
    private readonly whenLost: () => CallAnswer,
  ) {}

  /** Runs a call and answers it. `respond` is called once. */
  run(
    call: () => Promise<CallAnswer>,
    respond: (answer: CallAnswer) => Promise<void> | undefined,
  ): void {
    let answered = false;
    const failed = (error: unknown): void =>
      this.log.error("a call failed", { error: String(error) });
    const respondOnce = (answer: CallAnswer): Promise<void> | undefined => {
      if (answered) return undefined;
      answered = true;
      try {
        return respond(answer)?.catch(failed);
      } catch (error) {
        failed(error);
        return undefined;
      }
    };
    const interrupt = this.interrupts.add(() => void respondOnce(this.whenLost()));
    const over = (): void => {
      this.size--;
      interrupt.leave();
    };
    const end = (answer: CallAnswer): void => {
      const sent = respondOnce(answer);
      if (sent === undefined) over();
      else void sent.then(over);
    };
    this.size++;
    call().then(end, (error: unknown) => {
      failed(error);
      end({ reply: HIDDEN_ERROR });
    });
  }

  /** The shard is lost: answers all of them. */
  interrupt(): void {
    for (const interrupt of this.interrupts.drain()) interrupt();
  }
}
