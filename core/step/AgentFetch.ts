/**
 * `this.fetch`: in a durable turn or a fiber, a `fetch` that is a step, named by its method and
 * URL. The answer is stored before code sees it, so code sees the same one in each run. In any
 * other turn, and in the function of a step, it is a plain `fetch`.
 *
 * 1. The answer that code sees is the one that is stored, in the first run, too: read whole, and
 *    without credentials in its headers.
 * 2. An answer with a status of 400 or more is kept until the turn's attempt fails. The next
 *    attempt makes the request again, with the same idempotency key.
 */
import { LazyRequest } from "../lazyFetch/LazyRequest.ts";
import type { StepScope } from "../turn/Turn.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import type { AgentSteps } from "./AgentSteps.ts";
import { StepNotDurable } from "./stepErrors.ts";
import type { FetchOptions } from "./Step.ts";
import {
  answerOf,
  readBody,
  stepNameOf,
  storeAnswer,
  storeRequest,
  type StoredAnswer,
} from "./storedAnswer.ts";
import { resolveStepOptions } from "./stepOptions.ts";

/** Rule 2. */
const FAILURES_MIN = 400;

interface FetchAgent extends Pick<AgentTurns, "turn"> {
  readonly options: { readonly retry?: RetryOptions; readonly record?: boolean };
  /** The step whose function runs. */
  readonly currentStep: StepScope | undefined;
}

export class AgentFetch {
  constructor(
    private readonly agent: FetchAgent,
    private readonly steps: Pick<AgentSteps, "take" | "storeOf">,
  ) {}

  async run(input: Request | string | URL, init: FetchOptions | null): Promise<Response> {
    const { agent } = this;
    const { record, retry, timeout, ...own } = init ?? {};
    // A `Request` as options has no fields of its own.
    const plain = init instanceof Request ? init : own;
    if ("undo" in plain)
      throw new TypeError(
        "fetch: undo is an option of step, not of fetch: make the request in a step",
      );
    const turn = agent.turn();
    const hasSteps = this.steps.storeOf(turn) !== undefined;
    if (record === true && !turn.durable) {
      if (!hasSteps) throw new StepNotDurable({ step: `fetch ${urlOf(input)}`, turn: turn.cause.kind }); // prettier-ignore
      throw new TypeError(
        `fetch ${urlOf(input)}: record keeps requests for agents rerun, which runs no fibers: leave it out`,
      );
    }
    if (!hasSteps || agent.currentStep !== undefined) return fetch(input, plain);
    const asked = new Request(LazyRequest.unwrap(input), plain);
    const name = stepNameOf(asked);
    let read: Promise<Uint8Array<ArrayBuffer>> | undefined;
    const body = (): Promise<Uint8Array<ArrayBuffer>> =>
      (read ??= readBody(name, "request", asked.body));
    const options = { ...(retry && { retry }), ...(timeout !== undefined && { timeout }) };
    const text = await this.steps.take({
      name,
      ...resolveStepOptions(name, agent.options.retry, options),
      f: async ({ signal }) => {
        const bytes = await body();
        const request = new Request(asked, {
          signal: AbortSignal.any([asked.signal, signal]),
          ...(asked.body === null ? {} : { body: bytes }),
        });
        return storeAnswer(name, asked, await fetch(request));
      },
      isFinal: () => asked.signal.aborted,
      asks: {
        request: async () => storeRequest(asked, await body()),
        record: turn.durable && (record ?? agent.options.record ?? false),
        isAgain: (answer) => (JSON.parse(answer!) as StoredAnswer).status >= FAILURES_MIN,
      },
    });
    return answerOf(JSON.parse(text!) as StoredAnswer, asked.url);
  }
}

const urlOf = (input: Request | string | URL): string =>
  input instanceof Request ? input.url : String(input);
