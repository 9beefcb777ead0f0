/** The members that a stub leaves out are those of the base class (`core/namespace/AgentStub`). */
import { expectTypeOf, it } from "vitest";
import type { Agent } from "../../core/agent/Agent.ts";
import type { AgentMember } from "../../schemas/AgentMember.ts";

it("a stub's list of the base class's members is complete", () => {
  expectTypeOf<AgentMember>().toEqualTypeOf<Extract<keyof Agent, string>>();
});
