/** Polls until the result is the wanted one, or until a deadline, whose error says what it saw. */
import { inspect } from "node:util";

/** Long enough for a starved two-core machine, short enough to fail within a test's own timeout. */
const TIMEOUT_MS_DEFAULT = 90_000;
const INTERVAL_MS_DEFAULT = 20;

export interface PollOptions {
  readonly timeoutMs?: number;
  readonly intervalMs?: number;
}

/**
 * Resolves when `check` returns something truthy, with it. An error that `check` throws counts as
 * not yet; only a failed `expect` rejects at once. To have the last look in the error, `check` may
 * throw one that says what it saw, or return `{ done: false, saw }`; with `{ done: true, value }`
 * it ends with `value`.
 */
export async function pollUntil<A>(
  what: string,
  check: () => PollAnswer<A> | Promise<PollAnswer<A>>,
  options: PollOptions = {},
): Promise<A> {
  const timeoutMs = options.timeoutMs ?? TIMEOUT_MS_DEFAULT;
  const deadlineMs = performance.now() + timeoutMs;
  let saw: unknown = "nothing yet";
  let looks = 0;
  for (;;) {
    try {
      const answer = await check();
      looks += 1;
      if (isLook(answer)) {
        if (answer.done) return answer.value;
        saw = answer.saw;
      } else if (answer !== undefined && answer !== null && answer !== false) {
        return answer;
      } else saw = answer;
    } catch (error) {
      if (error instanceof Error && error.name === "AssertionError") throw error;
      looks += 1;
      saw = error;
    }
    if (performance.now() >= deadlineMs) {
      const seen = typeof saw === "string" ? saw : inspect(saw, { depth: 4 });
      throw new Error(`not within ${timeoutMs} ms: ${what}. Last of ${looks} looks: ${seen}`);
    }
    await new Promise((resolve) => setTimeout(resolve, options.intervalMs ?? INTERVAL_MS_DEFAULT));
  }
}

export type PollLook<A> =
  { readonly done: true; readonly value: A } | { readonly done: false; readonly saw: unknown };

/** `false`, `null` and `undefined` mean not yet; anything else (0 and "" too) is the value. */
export type PollAnswer<A> = PollLook<A> | A | false | null | undefined;

function isLook<A>(answer: PollAnswer<A>): answer is PollLook<A> {
  return (
    typeof answer === "object" &&
    answer !== null &&
    "done" in answer &&
    (answer.done === true ? "value" in answer : "saw" in answer)
  );
}
