/** Which subjects a host answers on: envelopes and requests name them, strangers' too. */
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

it.each(["agents.answer.host.token.1", "agents.answer.gateway.token.-", "_INBOX.abc.1"])(
  "requests may be answered at %s",
  (subject) => expect(subjects.isAnswerAddress(subject)).toBe(true),
);

it.each([
  "agents.journal.RepoAgent.acme",
  "agents.answers",
  "other.answer.host.token.1",
  "$JS.API.STREAM.PURGE.OBJ_agents_BLOBS",
  "$KV.agents_LEASES.shard.1",
  "",
])("requests are not answered at %s", (subject) => {
  expect(subjects.isAnswerAddress(subject)).toBe(false);
});
