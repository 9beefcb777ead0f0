/** The slot of an isolated agent, with a process that the test plays: its agent's sockets. */
import { expect, test } from "vitest";
import { agentId, type AgentId, type Epoch, type ShardId } from "../../schemas/Address.ts";
import type { SlotCall } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import type { IsolatedAsk, IsolatedReply, Isolation } from "../../core/input/Isolation.ts";
import type { AgentSlot, SlotContext } from "../../services/host/AgentSlot.ts";
import type { Ownership } from "../../services/host/AgentPorts.ts";
import type { HostServices } from "../../services/host/HostServices.ts";
import { IsolatedSlot } from "../../services/host/IsolatedSlot.ts";
import { Slots } from "../../services/host/Slots.ts";

const ID = agentId("Board", "one");
const SOCKET: SocketInfo = {
  gateway: "gateway", sid: "sid", id: "client", url: "http://a.example/", headers: [],
}; // prettier-ignore
const attachment = (n: number) => ({ tags: [], state: { n }, readonly: false, protocol: true });
const CONNECTED: CallReply = { kind: "connected", attachment: attachment(1) };
const PAGE = { skip: 0, limit: 10 };
const NO_BODY = new Uint8Array();

const answered = (reply: CallReply): IsolatedReply => ({
  kind: "answered",
  data: Buffer.from(encodeMessage(reply, NO_BODY)).toString("base64"),
});

/** The shard of an isolated agent that nothing has arrived for. */
function slotsOf(isolated: boolean, ask?: Isolation["ask"]): Slots {
  const isolation = { holds: () => isolated, ask };
  const databases = { discard: () => undefined };
  const services = { isolation, databases, config: { hostId: "host" } } as unknown as HostServices;
  const ownership = { epoch: 1 as Epoch, signal: new AbortController().signal };
  return new Slots(services, {
    ...(ownership as unknown as Ownership),
    shard: 0 as ShardId,
    isHeld: () => true,
  });
}

class Alone {
  readonly asked: string[] = [];
  readonly slot: IsolatedSlot;
  /** What gateways say that they hold. */
  known: SocketInfo[] = [];
  drained: IsolatedReply = { kind: "ended" };

  constructor() {
    const answer = (ask: IsolatedAsk): IsolatedReply => {
      this.asked.push(ask.kind);
      if (ask.kind === "drain") return this.drained;
      if (ask.kind !== "call") return { kind: "done" };
      const { head } = decodeMessage<SlotCall>(Buffer.from(ask.data, "base64"));
      const reply: CallReply = head.kind === "connect" ? CONNECTED : { kind: "taken" };
      return answered(reply);
    };
    const isolation: Isolation = {
      endedHost: undefined,
      holds: () => true,
      ask: (_id, _owner, ask) => Promise.resolve(answer(ask)),
      onIsolate: () => undefined,
      onReturn: () => undefined,
      left: () => undefined,
      lost: () => undefined,
      newCode: () => undefined,
    };
    const context = {
      epoch: 1 as Epoch,
      signal: new AbortController().signal,
      services: { config: { hostId: "host" } },
      quarantine: () => undefined,
      takeCensus: async (_id: AgentId) => {
        for (const info of this.known) this.slot.addSocket(info);
      },
    } as unknown as SlotContext;
    this.slot = new IsolatedSlot(ID, context, isolation);
  }

  call = (call: SlotCall) => this.slot.call(call, NO_BODY);

  /** The sockets of the slot that takes its place. */
  async succeed(): Promise<SocketInfo[]> {
    const sockets: SocketInfo[] = [];
    const next = { addSocket: (info: SocketInfo) => void sockets.push(info) };
    await this.slot.succeed(() => next as unknown as AgentSlot);
    return sockets;
  }
}

test("a body in the blob store is left to the process", async () => {
  let passed: string | undefined;
  const ask = (_id: unknown, _owner: unknown, asked: IsolatedAsk) => {
    if (asked.kind === "call") passed = asked.data;
    return Promise.resolve(answered({ kind: "result", value: 1 }));
  };
  const call: SlotCall = {
    kind: "fetch", id: "1", url: "http://a.example/", method: "POST", headers: [], blob: "call/1",
  }; // prettier-ignore
  await slotsOf(true, ask).of(ID).call(call, NO_BODY);
  const { head, body } = decodeMessage<SlotCall>(Buffer.from(passed!, "base64"));
  expect([head, body.length]).toEqual([call, 0]);
});

test("a slot whose agent has a socket is not empty, until the socket is closed", async () => {
  const alone = new Alone();
  await alone.call({ kind: "connect", socket: SOCKET });
  expect(alone.slot.empty).toBe(false);
  expect(alone.slot.socketsOf("gateway")).toEqual([{ ...SOCKET, attachment: attachment(1) }]);
  const at = { gateway: "gateway", sid: "sid", code: 1000, reason: "", wasClean: true };
  await alone.call({ kind: "close", ...at });
  expect(alone.slot.empty).toBe(true);
});

test("a sweep leaves a slot while the first socket of its agent connects", async () => {
  let answer = (_reply: IsolatedReply): void => undefined;
  const ask = () => new Promise<IsolatedReply>((resolve) => (answer = resolve));
  const slots = slotsOf(true, ask);
  const slot = slots.of(ID);
  // The process of the agent starts, for longer than the time between two sweeps.
  const connecting = slot.call({ kind: "connect", socket: SOCKET }, NO_BODY);
  slots.removeEmpty(slot);
  answer(answered(CONNECTED));
  expect((await connecting).reply.kind).toBe("connected");
  slots.removeEmpty(slot);
  expect(slots.find(ID)?.socketsOf("gateway")).toHaveLength(1);
});

test("the next slot takes over the sockets as the process had them", async () => {
  const alone = new Alone();
  await alone.call({ kind: "connect", socket: SOCKET });
  const now = { ...SOCKET, attachment: attachment(2) };
  alone.drained = { kind: "drained", sockets: [now] };
  expect(await alone.succeed()).toEqual([now]);
});

test("if the process has ended, the next slot takes over the sockets as their gateways know them", async () => {
  const alone = new Alone();
  await alone.call({ kind: "connect", socket: SOCKET });
  const now = { ...SOCKET, attachment: attachment(3) };
  alone.known = [now];
  expect(await alone.succeed()).toEqual([now]);
  // No process is started for them.
  expect(alone.asked).toEqual(["call", "drain"]);
});

test("an agent without a slot is where its next input would run, and gets no slot by the question", () => {
  const isolated = slotsOf(true);
  expect(isolated.connections(ID, PAGE)).toMatchObject({ agent: "isolated", total: 0 });
  expect([...isolated.values()]).toEqual([]);
  expect(slotsOf(false).connections(ID, PAGE)).toMatchObject({ agent: "hibernated", total: 0 });
});
