/** `agents deliveries --follow`: what arrives while the list is read is printed, and once. */
import { expect, it } from "vitest";
import type { DeliveryRecord } from "../../../schemas/DeliveryRecord.ts";
import { pollUntil } from "../../kit/poll.ts";
import { CliFixture } from "../fixture.ts";

const record = (id: string, at: number, more: Partial<DeliveryRecord> = {}): DeliveryRecord => ({
  id,
  at,
  time: at,
  status: "answered",
  route: "/hook",
  provider: "github",
  method: "POST",
  agent: ["Some", "one"],
  http: 200,
  ms: 1,
  ...more,
});

it("prints each once, whenever it comes, and within the limit", async () => {
  const cli = new CliFixture();
  const log = { ...cli.deliveries };
  const store = async (...records: ReadonlyArray<DeliveryRecord>): Promise<void> => {
    for (const each of records) log.record(each);
    await log.flush();
  };
  await store(record("first", 1), record("second", 2));
  Object.assign(cli.deliveries, {
    recent: async function* (kind: "taken" | "refused") {
      // Stored before the list is read, and after it.
      if (kind === "taken") await store(record("third", 3), record("fourth", 4, { status: "stored" })); // prettier-ignore
      try {
        yield* log.recent(kind);
      } finally {
        if (kind === "taken") await store(record("fourth", 5), record("fifth", 6), record("slow", 7, { time: 0 })); // prettier-ignore
      }
    },
  } satisfies Partial<typeof log>);
  const printed: string[] = [];
  const out = (line: string): void => {
    const { id, status } = JSON.parse(line) as DeliveryRecord;
    printed.push(`${id} ${status}`);
  };
  let following = false;
  const err = (): void => void (following = true);
  const args = ["deliveries", "--follow", "--limit", "1", "--json", "--nats", "nats://one:4222"];
  const ended = cli.run(args, { out, err });
  await pollUntil("it follows", () => following || { done: false, saw: printed });
  await store(record("last", 8));
  await pollUntil("the last one", () => printed.includes("last answered"));
  process.emit("SIGTERM");
  expect(await ended).toMatchObject({ code: 0 });
  expect(printed).toEqual([
    "fourth stored",
    "fourth answered",
    "fifth answered",
    "slow answered",
    "last answered",
  ]);
});
