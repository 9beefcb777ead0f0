/**
 * PayPal's certificates by the URL that a request names. They are fetched before the request is
 * verified, and kept. The URL is not trusted:
 *
 * 1. Only the one host that serves PayPal's certificates is contacted, over TLS, on its own path. A
 *    redirect is not followed; a port, a user or a query is refused.
 * 2. The work that a stranger can cause is bounded: concurrent fetches, their duration and size,
 *    the retries of a failed one, the number of certificates kept.
 * 3. A certificate counts only within its own dates of validity.
 */
import { X509Certificate, type KeyObject } from "node:crypto";
import type { WebhookRequest } from "../../../core/webhook/WebhookRoute.ts";
import { NOTHING_WRONG, type Keys, type KeySource } from "../verifier/Secrets.ts";
import { firstValue } from "../verifier/verified.ts";

/** The host of the certificates, by environment. */
export const PAYPAL_HOSTS = { live: "api.paypal.com", sandbox: "api.sandbox.paypal.com" } as const;
const CERTIFICATE_PATH = /^\/v1\/notifications\/certs\/CERT-[A-Za-z0-9-]{1,100}$/;

/** Less than the 5 s that a route waits by default; PayPal retries. */
const FETCH_TIMEOUT_MS = 3000;
/** A chain of three is about 6 KB. */
const CERTIFICATE_BYTES_MAX = 64 * 1024;
/** PayPal uses one or two at a time. */
const KEPT_MAX = 16;
const FETCHES_MAX = 4; // rule 2
/** A fetch fails for a forged URL or during an outage of PayPal. Neither needs a quick retry. */
const RETRY_AFTER_MS = 30_000;

type Kept =
  | {
      readonly _tag: "Certificate";
      readonly key: KeyObject;
      readonly fromMs: number;
      readonly toMs: number;
    }
  | { readonly _tag: "Failed"; readonly atMs: number; readonly why: string };

/** The global `fetch`, or the user's. */
type FetchCertificate = (url: string, init: RequestInit) => Promise<Response>;

/** The certificates of one host. */
export class PaypalCertificates implements KeySource {
  readonly names: ReadonlyArray<string> = [];
  readonly checkIn = () => NOTHING_WRONG;
  /** By URL, oldest first. */
  private readonly kept = new Map<string, Kept>();
  private readonly fetching = new Map<string, Promise<void>>();

  constructor(
    private readonly host: string,
    private readonly fetchCertificate: FetchCertificate,
  ) {}

  /** Fetches the certificate that the request names. Undefined: no wait. Never rejects. */
  readonly prepare = (request: WebhookRequest): Promise<void> | undefined => {
    const url = this.urlIn(request);
    if (url === undefined || request.method !== "POST") return undefined;
    const kept = this.kept.get(url);
    if (kept?._tag === "Certificate") return undefined;
    if (kept !== undefined && request.nowMs - kept.atMs < RETRY_AFTER_MS) return undefined;
    const running = this.fetching.get(url);
    if (running !== undefined || this.fetching.size >= FETCHES_MAX) return running;
    const fetching = this.load(url, request.nowMs).finally(() => this.fetching.delete(url));
    this.fetching.set(url, fetching);
    return fetching;
  };

  readonly keysFor = (request: WebhookRequest): Keys => {
    const url = this.urlIn(request);
    // Without a key no signature matches, so the request is answered 401.
    if (url === undefined)
      return { _tag: "Keys", keys: [], hint: "PAYPAL-CERT-URL is not PayPal's" };
    const kept = this.kept.get(url);
    if (kept?._tag !== "Certificate")
      return {
        _tag: "Unavailable",
        message: `paypal: no certificate: ${kept?.why ?? "too many fetches at a time"}`,
      };
    const { nowMs } = request;
    if (nowMs < kept.fromMs || nowMs > kept.toMs)
      // Rule 3.
      return { _tag: "Keys", keys: [], hint: "the certificate is not valid now" };
    return { _tag: "Keys", keys: [kept.key] };
  };

  /** Rule 1. Compared as text: `new URL` would normalise a malicious URL first. */
  private urlIn(request: WebhookRequest): string | undefined {
    const origin = `https://${this.host}`;
    const url = firstValue(request, "paypal-cert-url") ?? "";
    return url.startsWith(origin) && CERTIFICATE_PATH.test(url.slice(origin.length))
      ? url
      : undefined;
  }

  private async load(url: string, nowMs: number): Promise<void> {
    try {
      const response = await this.fetchCertificate(url, {
        redirect: "error",
        signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
      });
      if (!response.ok) throw new Error(`${url} answered ${response.status}`);
      const certificate = new X509Certificate(await textOf(response));
      if (certificate.publicKey.asymmetricKeyType !== "rsa") throw new Error("its key is not RSA");
      this.keep(url, {
        _tag: "Certificate",
        key: certificate.publicKey,
        fromMs: Date.parse(certificate.validFrom),
        toMs: Date.parse(certificate.validTo),
      });
    } catch (error) {
      this.keep(url, { _tag: "Failed", atMs: nowMs, why: String(error) });
    }
  }

  private keep(url: string, kept: Kept): void {
    this.kept.delete(url);
    this.kept.set(url, kept);
    if (this.kept.size <= KEPT_MAX) return;
    // Failures are evicted first, so that invented URLs can't displace PayPal's certificates.
    const entries = [...this.kept];
    const [oldest] = entries.find(([, { _tag }]) => _tag === "Failed") ?? entries[0]!;
    this.kept.delete(oldest);
  }
}

/** The body as text. Throws past the size limit. */
async function textOf(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    parts.push(part);
    bytes += part.length;
    if (bytes > CERTIFICATE_BYTES_MAX) throw new Error("the answer is too long for a certificate");
  }
  return Buffer.concat(parts).toString();
}
