/** An agent's sockets, in and out of memory. */
import { expect, test } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import { CommitRig } from "../faults/CommitRig.ts";
import { pollUntil } from "../kit/poll.ts";

const socket = (sid: string): SocketInfo => ({
  gateway: "gateway",
  sid,
  id: sid,
  url: "http://agent/",
  headers: [],
});

test("a socket that a census finds while the agent's onStart runs is the agent's", async () => {
  let end = (): void => undefined;
  const ended = new Promise<void>((resolve) => (end = resolve));
  class Starting extends Agent<unknown> {
    override onStart(): Promise<void> {
      return ended;
    }
    override async onRequest(): Promise<Response> {
      return new Response("OK");
    }
  }
  const rig = await CommitRig.make(Starting as AgentClassType);
  rig.slot.addSocket(socket("before"));
  await rig.deliver(1);
  expect(rig.slot.agent).toBeUndefined();
  rig.slot.addSocket(socket("meanwhile"));
  end();
  const { sockets } = await pollUntil("the agent has started", () => rig.slot.agent);
  expect(sockets.infos().map(({ sid }) => sid)).toEqual(["before", "meanwhile"]);
});
