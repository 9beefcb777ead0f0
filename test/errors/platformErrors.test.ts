import { describe, expect, it } from "vitest";
import {
  AgentDiscarded,
  AgentUnreachable,
  isDurableObjectCodeUpdateReset,
  isDurableObjectMemoryLimitReset,
  isDurableObjectStorageReset,
  isPlatformTransientError,
} from "agents";
import { CallInterrupted } from "../../core/errors/errors.ts";
import { decodeError, encodeError } from "../../core/call/remoteError.ts";

describe("errors of the platform", () => {
  it("a lost agent's error is transient, also as a cause, and as another host received it", () => {
    const lost = new AgentUnreachable({ message: "nobody answers" });
    for (const error of [lost, new AgentDiscarded(), new CallInterrupted()])
      for (const seen of [
        error,
        new Error("outer", { cause: error }),
        decodeError(encodeError(error)),
      ])
        // prettier-ignore
        expect(isPlatformTransientError(seen), String(seen)).toBe(true);
  });

  it("a moved agent's error is distinguished from an unreachable agent's", () => {
    expect(isDurableObjectCodeUpdateReset(new AgentDiscarded())).toBe(true);
    expect(isDurableObjectCodeUpdateReset(new AgentUnreachable({ message: "x" }))).toBe(false);
  });

  it("an app's error keeps its short own properties between agents, and nothing else of it", () => {
    const thrown = Object.assign(new RangeError("too much"), {
      code: "LIMIT",
      status: 429,
      retryable: false,
      request: { authorization: "secret" },
      body: "x".repeat(2_000),
      _own: 1,
    });
    const seen = decodeError(encodeError(new Error("outer", { cause: thrown }))).cause;
    expect(seen).toBeInstanceOf(RangeError);
    expect({ ...(seen as object) }).toEqual({ code: "LIMIT", status: 429, retryable: false });
  });

  it("an app's error does not match, nor does a cyclic cause", () => {
    const circle = new Error("circle");
    circle.cause = circle;
    for (const error of [new TypeError("x"), circle, "text", undefined])
      for (const ask of [
        isPlatformTransientError,
        isDurableObjectCodeUpdateReset,
        isDurableObjectMemoryLimitReset,
        isDurableObjectStorageReset,
      ])
        expect(ask(error)).toBe(false);
  });
});
