/** The storing of a dead letter while the broker does not answer. */
import { expect, test } from "vitest";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { agentId } from "../../schemas/Address.ts";
import { decodeDeadLetter } from "../../schemas/DeadLetter.ts";
import { deadLetter } from "../../services/host/deadLetter.ts";

const ID = agentId("RepoAgent", "acme");
const away = new BrokerUnavailable({ message: "no answer" });
const INPUT = Uint8Array.of(1, 2, 3);

/** Stores a letter whose reads and writes fail as given, each list in turn. */
async function store({ reads = [], writes = [] }: Record<"reads" | "writes", Error[]>) {
  const pauses: number[] = [];
  const stored: Uint8Array[] = [];
  const failing = (errors: Error[]): void => {
    const error = errors.shift();
    if (error !== undefined) throw error;
  };
  const services = {
    config: { hostId: "h1" },
    time: { nowMs: () => 7, after: (ms: number, f: () => void) => (pauses.push(ms), f(), () => 0) },
    module: () => ({ agents: new Map() }),
    metrics: { ofClass: () => ({ deadLetter: () => undefined }) },
    deadLetters: {
      put: async (_: unknown, data: Uint8Array) => {
        failing(writes);
        stored.push(data);
      },
    },
  } as unknown as Parameters<typeof deadLetter>[0];
  const input = async (): Promise<Uint8Array> => {
    failing(reads);
    return INPUT;
  };
  const letter = { seq: 5, reason: "it failed", undone: false, death: "5", input };
  const ended = await deadLetter(services, ID, letter).then(
    () => "stored",
    (error: unknown) => error,
  );
  return { ended, pauses, stored };
}

test("it is tried again after pauses that grow, whether the input or the letter fails", async () => {
  const { ended, pauses, stored } = await store({ reads: [away], writes: [away, away] });
  expect(ended).toBe("stored");
  expect(pauses).toEqual([250, 500, 1_000]);
  expect(stored.map((data) => decodeDeadLetter(data).input)).toEqual([INPUT]);
});

test("a broker that stays away ends it after five tries, any other error at once", async () => {
  const broker = await store({ reads: [], writes: Array.from({ length: 9 }, () => away) });
  expect(broker.ended).toBe(away);
  expect(broker.pauses).toHaveLength(4);
  const defect = new Error("a defect");
  expect(await store({ reads: [defect], writes: [] })).toMatchObject({ ended: defect, pauses: [] });
});
