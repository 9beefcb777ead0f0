/** One webhook of GitHub's to the ledger (`test/faults/ledgerModule`), signed. */
import { Agent, request } from "node:http";
import { sign } from "../../services/webhooks/sign.ts";
import { SECRET } from "./Installation.ts";

/** `noise`: what makes its body as large as a test wants it. */
export interface LedgerDelivery {
  readonly agent: string;
  readonly id: string;
  readonly noise?: string;
}

/** Resolves to the status of the gateway's answer. */
export async function postLedger(
  url: string,
  delivery: LedgerDelivery,
  headers: Readonly<Record<string, string>> = {},
): Promise<number> {
  const body = JSON.stringify(delivery);
  const signed = sign.github(body, SECRET, { id: delivery.id });
  const response = await fetch(`${url}/webhooks/github`, {
    method: "POST",
    body,
    headers: { ...signed, ...headers },
  });
  await response.arrayBuffer();
  return response.status;
}

export interface HeldPost {
  readonly body: string;
  /** The delivery's. */
  readonly id: string;
  readonly secret: string;
  /** Keeps its connections open. */
  readonly agent: Agent;
  readonly timeoutMs: number;
}

/** For senders of many: resolves to the status of the answer, 0 when none came in time. */
export function postHeld(url: string, post: HeldPost): Promise<number> {
  const { body, id, secret, agent, timeoutMs } = post;
  const signed = sign.github(body, secret, { id, event: "push" });
  const headers = { ...signed, "content-length": Buffer.byteLength(body) };
  return new Promise((resolve) => {
    const outgoing = request(
      `${url}/webhooks/github`,
      { method: "POST", agent, timeout: timeoutMs, headers },
      (response) => {
        response.resume();
        response.once("close", () => resolve(response.statusCode ?? 0));
      },
    );
    outgoing.once("timeout", () => outgoing.destroy());
    outgoing.once("error", () => resolve(0));
    outgoing.end(body);
  });
}
