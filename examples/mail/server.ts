/**
 * A help desk by mail: one agent per case. A mail to help@… opens a case, which answers under its
 * own number; the answers of people who are part of it come home by signed headers, or by the
 * address help+<case>@….
 *
 * `agents dev examples/mail/server.ts` takes mail on port 2525; docs/guides/email.md says how to
 * send one there.
 */
import { Agent, routeAgentEmail, type AgentEmail } from "agents";
import {
  createAddressBasedEmailResolver,
  createSecureReplyEmailResolver,
  parseEmail,
  type EmailResolver,
} from "agents/email";

interface Env {
  /** Signs what cases send. Without it answers come home by address only. */
  readonly EMAIL_SECRET?: string;
}

export interface CaseState {
  readonly subject: string | null;
  readonly customer: string | null;
  /** Received mails. */
  readonly letters: number;
}

interface Letter {
  readonly sender: string;
  readonly text: string;
  readonly attachments: number;
}

export class CaseAgent extends Agent<Env, CaseState> {
  override initialState: CaseState = { subject: null, customer: null, letters: 0 };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS letters (sender TEXT, text TEXT, attachments INTEGER)`;
  }

  override async onEmail(email: AgentEmail): Promise<void> {
    const { subject = "", text = "", attachments } = await parseEmail(email);
    this.sql`INSERT INTO letters VALUES (${email.from}, ${text}, ${attachments.length})`;
    const isFirst = this.state.customer === null;
    this.setState({
      subject: this.state.subject ?? subject,
      customer: this.state.customer ?? email.from,
      letters: this.state.letters + 1,
    });
    if (isFirst)
      await this.replyToEmail(email, {
        fromName: "Help desk",
        subject: `[case ${this.name}] ${subject}`,
        body: `Thank you for your mail. It is case ${this.name}; your answers to this mail become part of it.\n`,
        // The next answer goes straight to this case, also where the signed headers get lost.
        headers: { "Reply-To": email.to.replace(/^[^@]*@/, `help+${this.name}@`) },
        secret: this.env.EMAIL_SECRET ?? null,
      });
  }

  letters(): Letter[] {
    return this.sql<Letter>`SELECT * FROM letters ORDER BY rowid`;
  }
}

/** `help+<case>@…` is that case. */
const byAddress = createAddressBasedEmailResolver("CaseAgent");

/** Ten billion numbers: two mails meet by chance once there are some hundred thousand cases. */
const CASE_DIGITS = 10;

/**
 * Any other mail to `help@…` opens a case, named after the mail: sent again it is the same case.
 * The sender is part of it, because everybody who received the mail knows its Message-ID.
 */
const newCase: EmailResolver = async (email) => {
  const id = email.headers.get("message-id") ?? new TextDecoder().decode(await email.getRaw());
  const hash = await crypto.subtle.digest(
    "SHA-256",
    new TextEncoder().encode(`${email.from.toLowerCase()} ${id}`),
  );
  const number = new DataView(hash).getBigUint64(0) % 10n ** BigInt(CASE_DIGITS);
  return { agentName: "CaseAgent", agentId: String(number).padStart(CASE_DIGITS, "0") };
};

export default {
  async email(message: AgentEmail, env: Env): Promise<void> {
    const secure =
      env.EMAIL_SECRET === undefined ? undefined : createSecureReplyEmailResolver(env.EMAIL_SECRET);
    await routeAgentEmail(message, env, {
      resolver: async (email, given) => {
        const home = await secure?.(email, given);
        if (home) return home;
        const [local = ""] = email.to.toLowerCase().split("@");
        if (local === "help") return newCase(email, given);
        const target = local.startsWith("help+") ? await byAddress(email, given) : null;
        return target === null ? null : { ...target, agentName: "CaseAgent" };
      },
    });
  },
};
