/** One webhook of GitHub's to the ledger (`test/faults/ledgerModule`), signed. */
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
