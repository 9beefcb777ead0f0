/**
 * The text for a broker that no dial has reached: the client's error, and what an operator checks
 * next. A server that refuses the login, or shows a certificate that is not accepted, does run. By
 * the class or the code of the error, never by its text. For `NatsConnection`.
 */
import { errors } from "@nats-io/nats-core";

/** Codes of OpenSSL, by Node's names, of a certificate that no known authority has signed. */
const OTHER_AUTHORITY: ReadonlySet<string> = new Set([
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "CERT_SIGNATURE_FAILURE",
]);

/** `tls`: the connection was to use TLS. `error`: what the last dial of `servers` ended with. */
export function whyUnreachable(servers: string, error: unknown, tls: boolean): string {
  const isSilent = error instanceof errors.ConnectionError || error instanceof errors.TimeoutError;
  const what = isSilent ? "no answer from" : "no connection to";
  return `${what} ${servers}: ${String(error)}${hint(error, { isSilent, tls })}`;
}

function hint(error: unknown, { isSilent, tls }: { isSilent: boolean; tls: boolean }): string {
  if (isSilent)
    return tls
      ? "; is nats-server running there, with TLS? If it verifies its clients, specify --nats-cert and --nats-key"
      : "; is nats-server running there?";
  if (error instanceof errors.AuthorizationError)
    return "; check the user and the password of --nats (NATS_URL), or the file of --nats-creds or --nats-nkey";
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  if (OTHER_AUTHORITY.has(code))
    return "; specify the certificate of the server's authority: --nats-ca (NATS_CA)";
  if (code === "CERT_HAS_EXPIRED")
    return "; renew the server's certificate and send it SIGHUP, or correct this machine's clock";
  if (code === "CERT_NOT_YET_VALID") return "; is this machine's clock right?";
  return "";
}
