/** What a writer learns when the leader that owed it an ack is no longer the leader. */
import { expect, test } from "vitest";
import { Subjects } from "../../schemas/Subjects.ts";
import { pollUntil } from "../kit/poll.ts";
import { useNats } from "./useNats.ts";

const ELECTED = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.any_stream";
/** Somebody listens here, so the broker does not report that nobody does; no stream stores it. */
const NEVER_ACKED = "never.acked";

const nats = useNats();

test("a message that is not acked is ambiguous soon after an election, without its timeout", async () => {
  const { publisher } = await nats.open(new Subjects("elections"), { shards: 1 });
  const { client } = await nats.connect();
  let received = 0;
  client.subscribe(NEVER_ACKED, { callback: () => void received++ });
  await client.flush();
  const outcome = publisher.publish(NEVER_ACKED, new Uint8Array(1));
  await pollUntil("the message is on its way", () => received === 1);
  client.publish(ELECTED, "{}");
  expect(await outcome).toEqual({
    _tag: "Ambiguous",
    message: "no ack from the broker (a stream elected another leader)",
  });
});
