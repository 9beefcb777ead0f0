/** The next release of `now.ts`: each ref is handled otherwise in one way. */
import { get } from "node:http";
import { PayAgent as NowPay, RepoAgent as Now } from "./now.ts";

export class RepoAgent extends Now {
  override async take(ref: string): Promise<void> {
    if (ref === "refused") throw new Error("refused from now on");
    if (ref === "asked") await fetch("https://api.example.com/refs");
    if (ref === "sent") await this.sendWebhook("https://hooks.example.com/refs", { ref });
    if (ref === "direct") await getDirectly(`${this.env.API}/direct`);
    if (ref === "broken") return this.setState({ ...this.state, last: "unreadable" });
    if (ref === "planned") return void (await this.schedule(60, "remind", ref));
    await super.take(ref);
    if (ref === "twice") this.sql`INSERT INTO pushes (ref, at) VALUES (${ref}, ${0})`;
  }

  override hold(ref: string): Promise<void> {
    return this.pick(ref);
  }

  override async pick(ref: string): Promise<void> {
    await this.sendWebhook("https://hooks.example.com/picked", { ref });
    this.setState({ ...this.state, last: `picked ${ref}` });
  }
}

/** As a client that does not use `fetch`. */
const getDirectly = (url: string): Promise<void> =>
  new Promise((resolve, reject) => {
    get(url, (response) => response.resume().on("end", resolve)).on("error", reject);
  });

export class PayAgent extends NowPay {
  override amountOf(found: string): number {
    return super.amountOf(found) + 1;
  }

  override book(amount: number): void {
    this.setState({ ...this.state, paid: this.state.paid + amount });
  }
}
