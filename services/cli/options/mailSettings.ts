/**
 * Reads and checks the options of mail: PEM files, the relay's URL, and pairs of credentials. What
 * could not serve is refused before anything is started.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { createSecureContext } from "node:tls";
import type { MailSettings } from "../../wiring/ProcessSettings.ts";
import { failed, usage } from "../terminal/CliError.ts";
import type { Terminal } from "../terminal/Terminal.ts";
import { messageOf } from "../../../core/errors/thrown.ts";

/** The values that commander parses for the options of mail. */
export interface MailOptions {
  readonly smtpPort?: number;
  readonly smtpRelay?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  /** MiB. */
  readonly smtpSize?: number;
  readonly smtpRate?: number;
}

const BYTES_PER_MIB = 1024 * 1024;

/** Throws `CliError` for an incomplete pair, an unreadable file, or an invalid relay's URL. */
export function mailSettings(
  given: MailOptions,
  { cwd, env }: Pick<Terminal, "cwd" | "env">,
): MailSettings {
  const { tlsCert, tlsKey, smtpSize } = given;
  if ((tlsCert === undefined) !== (tlsKey === undefined))
    throw usage("--tls-cert and --tls-key go together: set both");
  const relayUrl = given.smtpRelay === "" ? undefined : given.smtpRelay;
  if (relayUrl !== undefined && !/^smtps?:\/\/[^/]/.test(relayUrl))
    throw usage(
      "--smtp-relay (SMTP_URL) is not an smtp:// or smtps:// URL. Example: smtp://user:password@relay.example.com:587",
    );
  const tls =
    tlsCert === undefined || tlsKey === undefined
      ? undefined
      : { cert: readPem(resolve(cwd, tlsCert)), key: readPem(resolve(cwd, tlsKey)) };
  if (tls !== undefined) checkTls(tls);
  return {
    port: given.smtpPort,
    relayUrl,
    tls,
    auth: credentials(env),
    messageBytesMax: smtpSize === undefined ? undefined : smtpSize * BYTES_PER_MIB,
    messagesPerPeerPerMinute: given.smtpRate,
  };
}

/** Throws `CliError` for a login that callers would have to send in the clear. */
export function requireTlsForLogin({ auth, tls }: MailSettings): void {
  if (auth !== undefined && tls === undefined)
    throw usage(
      "AGENTS_SMTP_USER and AGENTS_SMTP_PASS need --tls-cert and --tls-key: passwords are accepted over TLS only",
    );
}

function credentials(env: Terminal["env"]): MailSettings["auth"] {
  const user = env["AGENTS_SMTP_USER"];
  const password = env["AGENTS_SMTP_PASS"];
  if (user === undefined && password === undefined) return undefined;
  // An empty password would be accepted from anybody.
  if (!user || !password)
    throw usage(
      "AGENTS_SMTP_USER and AGENTS_SMTP_PASS go together: set both, and neither to an empty value",
    );
  return { user, password };
}

/** Throws `CliError` for a certificate that no server could use. */
function checkTls(tls: { readonly cert: string; readonly key: string }): void {
  try {
    createSecureContext(tls);
  } catch (error) {
    throw failed(`--tls-cert and --tls-key can't be used together: ${messageOf(error)}`);
  }
}

function readPem(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw failed(`${file} can't be read: ${messageOf(error)}`);
  }
}
