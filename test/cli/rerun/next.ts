/** The next release of `now.ts`: each ref is handled otherwise in one way. */
import { PayAgent as NowPay, RepoAgent as Now } from "./now.ts";

export class RepoAgent extends Now {
  override async take(ref: string): Promise<void> {
    if (ref === "refused") throw new Error("refused from now on");
    if (ref === "asked") await fetch("https://api.example.com/refs");
    if (ref === "sent") await this.sendWebhook("https://hooks.example.com/refs", { ref });
    if (ref === "broken") return this.setState({ ...this.state, last: "unreadable" });
    if (ref === "planned") return void (await this.schedule(60, "remind", ref));
    await super.take(ref);
    if (ref === "twice") this.sql`INSERT INTO pushes (ref, at) VALUES (${ref}, ${0})`;
  }
}

export class PayAgent extends NowPay {
  override amountOf(found: string): number {
    return super.amountOf(found) + 1;
  }
}
