/**
 * An agent per person: a mail such as "in 2 hours: call Ann" is answered at once and again when it
 * is due. Reminders are schedules: they outlive restarts, and each is sent once per address.
 *
 * Start it with `npx agents dev examples/reminders/server.ts`. README.md says more.
 */
import { Agent, type AgentEmail, type Module, type SendsEmail } from "agents";
import { emailRoute, parseEmail } from "agents/email";

interface Env {
  readonly EMAIL: SendsEmail;
}
interface Reminder {
  readonly text: string;
  readonly to: string;
}

const SECONDS: Readonly<Record<string, number>> = {
  minute: 60,
  hour: 3_600,
  day: 86_400,
  week: 604_800,
};
const HELP = `Write for example "in 2 hours: call Ann" or "in 3 days: renew the passport".`;

/** Undefined for text that is not a reminder. */
export function readReminder(
  line: string,
): { readonly seconds: number; readonly text: string } | undefined {
  const [, count, unit, text] =
    /^in (\d{1,4}) (minute|hour|day|week)s?:? +(.+)$/i.exec(line.trim()) ?? [];
  const seconds = Number(count) * (SECONDS[unit?.toLowerCase() ?? ""] ?? Number.NaN);
  return text === undefined || !(seconds > 0) ? undefined : { seconds, text };
}

export class Reminders extends Agent<Env> {
  override async onEmail(email: AgentEmail): Promise<void> {
    const { subject = "", text = "" } = await parseEmail(email);
    const lines = [subject, ...text.split("\n")];
    const found = lines.map(readReminder).find((reminder) => reminder !== undefined);
    const reply = { fromName: "Reminders", subject: `Re: ${subject}`.trim() };
    if (found === undefined) return void (await this.replyToEmail(email, { ...reply, body: HELP }));
    const payload: Reminder = { text: found.text, to: email.from };
    await this.schedule("remind", { delayInSeconds: found.seconds, payload });
    await this.replyToEmail(email, { ...reply, body: `I will remind you: ${found.text}` });
  }

  async remind({ text, to }: Reminder): Promise<void> {
    await this.sendEmail({
      binding: this.env.EMAIL,
      from: "remind@example.com",
      to,
      subject: `Reminder: ${text}`,
      text,
    });
  }
}

export default {
  // The agent is named after the sender, whose mail programs may write the address in any case.
  email: [
    emailRoute("remind@example.com", {
      agent: Reminders,
      entity: (email) => email.from.toLowerCase(),
    }),
  ],
} satisfies Module<Env>;
