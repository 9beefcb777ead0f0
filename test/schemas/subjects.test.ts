/**
 * Which subjects a host answers a durable input on: its envelope names one, and strangers' logins
 * write envelopes.
 */
import { expect, it } from "vitest";
import { Subjects } from "../../schemas/Subjects.ts";

const subjects = new Subjects("agents");

it("answers of inputs are sent to a gateway's reply subject", () => {
  expect(subjects.isGatewayReply(subjects.gateway("any id.", "reply"))).toBe(true);
});

it.each([
  subjects.gateway("g", "frame"),
  new Subjects("other").gateway("g", "reply"),
  "agents.journal.RepoAgent.acme",
  "agents.gateway.reply",
  "agents.gateway..reply",
  "agents.gateway.g.reply.more",
  "$KV.agents_LEASES.shard.1",
  "",
])("answers of inputs are not sent to %s", (subject) => {
  expect(subjects.isGatewayReply(subject)).toBe(false);
});
