/** Mail at a steady pace to processes that are replaced. Its rules: `checkLetters`. */
import { randomUUID } from "node:crypto";
import { pollUntil } from "../kit/poll.ts";
import type { Violations } from "../kit/checkers.ts";
import { deliver, Sink } from "../email/kit.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { getState } from "../membership/Callers.ts";
import type { Fleet } from "../membership/Fleet.ts";
import { checkLetters, type SentLetter } from "./rules.ts";

const BOXES = ["box-0", "box-1", "box-2"] as const;
/** From a letter to the next. */
const PACE_MS = 1_000;
/** On a machine that is late. */
const DONE_TIMEOUT_MS = 300_000;

interface DoneLetter {
  readonly subject: string;
  readonly by: string;
}

export class Letters {
  private readonly fleet: Fleet;
  private readonly relay: Sink;
  private readonly sent: Array<SentLetter & { readonly box: string }> = [];
  private server: AgentsProcess | undefined;
  private isOver = false;
  private sending: Promise<void> | undefined;

  /** `relay`: that of the fleet's hosts (`SMTP_URL`). */
  constructor(fleet: Fleet, relay: Sink) {
    this.fleet = fleet;
    this.relay = relay;
  }

  /** By a process of the fleet's present release; the one before it ends after that. */
  async replaceServer(): Promise<void> {
    const old = this.server;
    this.server = await this.fleet.addMail();
    if (old !== undefined) await old.stop();
    this.sending ??= this.send();
  }

  /** Ends the sending. */
  async check(): Promise<Violations> {
    this.isOver = true;
    await this.sending;
    const taken = this.sent.filter((letter) => letter.taken).length;
    const done = await pollUntil(
      "each letter that was taken is done and answered",
      async () => {
        const letters: DoneLetter[] = [];
        for (const box of BOXES) letters.push(...(await getState<DoneLetter[]>(this.fleet.url, box, "post"))); // prettier-ignore
        const answered = new Set(this.answers().map(({ subject }) => subject)).size;
        if (letters.length < taken || answered < letters.length)
          return { done: false as const, saw: { taken, done: letters.length, answered } };
        return { done: true as const, value: letters };
      },
      { timeoutMs: DONE_TIMEOUT_MS, intervalMs: 1_000 },
    );
    const wrong = checkLetters(
      this.sent,
      done.map(({ subject }) => subject),
      this.answers(),
    );
    const releases = new Set(done.map(({ by }) => by));
    return releases.size === 2 ? wrong : [...wrong, `letters were answered by ${[...releases].join()}`]; // prettier-ignore
  }

  private async send(): Promise<void> {
    for (let n = 0; !this.isOver; n++) {
      const box = BOXES[n % BOXES.length]!;
      const subject = `letter-${n}-${randomUUID()}`;
      const port = Number(String(this.server!.lines.find(({ message }) => message === "mail serves")!["smtp"]).split(":")[1]); // prettier-ignore
      const { code } = await deliver(port, { from: "ann@example.org", to: `post+${box}@example.com`, subject, text: "a letter" }); // prettier-ignore
      this.sent.push({ subject, box, taken: code === 250 });
      await new Promise((resolve) => setTimeout(resolve, PACE_MS));
    }
  }

  private answers() {
    return this.relay.mails.map(({ raw }) => {
      const header = (name: string): string =>
        new RegExp(`^${name}: (.*)\\r$`, "im").exec(raw.toString())?.[1] ?? "none";
      return { subject: header("Subject"), messageId: header("Message-ID") };
    });
  }
}
