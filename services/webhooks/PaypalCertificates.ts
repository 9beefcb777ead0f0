/**
 * PayPal's certificates by the URL that a request names, fetched before the request is verified and
 * kept. The URL is a stranger's word, so:
 *
 * 1. Only the one host that PayPal serves certificates from is asked, over TLS, on its own path; nothing
 *    is followed elsewhere (no redirect, no port, no user, no query).
 * 2. What strangers can make this do is bounded: fetches at a time, their time and size, how often one
 *    that failed is tried again, how many are kept.
 * 3. A certificate counts only while it is valid by its own dates.
 */
import { X509Certificate, type KeyObject } from "node:crypto";
import type { WebhookRequest } from "../../core/webhook/WebhookRoute.ts";
import { NOTHING_WRONG, type Keys, type KeySource } from "./Secrets.ts";
import { firstValue } from "./verified.ts";

export const PAYPAL_HOSTS = { live: "api.paypal.com", sandbox: "api.sandbox.paypal.com" } as const;
const CERTIFICATE_PATH = /^\/v1\/notifications\/certs\/CERT-[A-Za-z0-9-]{1,100}$/;

/** A route waits 5 s by default, and PayPal tries again. */
const FETCH_TIMEOUT_MS = 3000;
/** A chain of three is about 6 KB. */
const CERTIFICATE_BYTES_MAX = 64 * 1024;
/** PayPal uses one or two at a time. */
const KEPT_MAX = 16;
const FETCHES_MAX = 4; // rule 2
/** A certificate that PayPal doesn't have is a forgery, or PayPal is in trouble: neither is worth haste. */
const RETRY_AFTER_MS = 30_000;

type Kept =
  | {
      readonly _tag: "Certificate";
      readonly key: KeyObject;
      readonly fromMs: number;
      readonly toMs: number;
    }
  | { readonly _tag: "Failed"; readonly atMs: number; readonly why: string };

export type FetchCertificate = (url: string, init: RequestInit) => Promise<Response>;

export class PaypalCertificates implements KeySource {
  readonly names: ReadonlyArray<string> = [];
  readonly checkIn = () => NOTHING_WRONG;
  /** Oldest first. */
  private readonly kept = new Map<string, Kept>();
  private readonly fetching = new Map<string, Promise<void>>();

  constructor(
    private readonly host: string,
    private readonly fetchCertificate: FetchCertificate,
  ) {}

  /** Undefined when there is nothing to wait for; never rejects. */
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
    // No key signs for it, so the request is refused for what it is: 401.
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
      // 3
      return { _tag: "Keys", keys: [], hint: "the certificate is not valid now" };
    return { _tag: "Keys", keys: [kept.key] };
  };

  /** 1. As text, since what `new URL` makes of a trick is not what was sent. */
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
    // Failures go first: a stranger's inventions must not push PayPal's own out.
    const entries = [...this.kept];
    const [oldest] = entries.find(([, { _tag }]) => _tag === "Failed") ?? entries[0]!;
    this.kept.delete(oldest);
  }
}

/** The body as text, as far as the limit. */
async function textOf(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    parts.push(part);
    bytes += part.length;
    if (bytes > CERTIFICATE_BYTES_MAX) throw new Error("it is too long for a certificate");
  }
  return Buffer.concat(parts).toString();
}
