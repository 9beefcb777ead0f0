/** Certificates by the script of `deploy/` for operators; default: for 127.0.0.1, localhost. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("../../deploy/nats/certificates.sh", import.meta.url));

export interface Certificates {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

export function makeCertificates(folder: string, names = ["127.0.0.1", "localhost"]): Certificates {
  execFileSync("sh", [SCRIPT, folder, ...names], { stdio: "pipe" });
  return {
    ca: join(folder, "ca.crt"),
    cert: join(folder, "tls.crt"),
    key: join(folder, "tls.key"),
  };
}

/** What `tls.conf` reads. */
export const tlsVariables = ({ ca, cert, key }: Certificates): Record<string, string> => ({
  NATS_TLS_CA: ca,
  NATS_TLS_CERT: cert,
  NATS_TLS_KEY: key,
});
