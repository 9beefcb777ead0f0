/**
 * The options that authenticate a command to the broker, beside the URL of `--nats`: files with
 * credentials, an nkey's seed, certificates. The environment variables have the names that NATS's
 * own command-line tool reads.
 */
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import type { BrokerLogin } from "../../wiring/Joins.ts";

/** The values that commander parses for these options. */
export interface GivenLogin {
  readonly natsCreds?: string;
  readonly natsNkey?: string;
  readonly natsCa?: string;
  readonly natsCert?: string;
  readonly natsKey?: string;
}

export const addLoginOptions = (command: Command): Command =>
  command
    .addOption(file("--nats-creds <file>", "credentials (.creds) to log in with", "NATS_CREDS"))
    .addOption(file("--nats-nkey <file>", "nkey seed to log in with", "NATS_NKEY"))
    .addOption(
      file(
        "--nats-ca <file>",
        "CA certificates that the server's certificate is checked against",
        "NATS_CA",
      ),
    )
    .addOption(file("--nats-cert <file>", "client certificate", "NATS_CERT"))
    .addOption(file("--nats-key <file>", "key of the client certificate", "NATS_KEY"));

/** Returns absolute paths, or undefined where no option is given. */
export function loginOf(given: GivenLogin, cwd: string): BrokerLogin | undefined {
  const { natsCreds, natsNkey, natsCa, natsCert, natsKey } = given;
  const files = {
    credentialsFile: natsCreds,
    nkeyFile: natsNkey,
    caFile: natsCa,
    certFile: natsCert,
    keyFile: natsKey,
  };
  const found = Object.entries(files)
    .filter(([, path]) => path !== undefined && path !== "")
    .map(([name, path]) => [name, resolve(cwd, path!)]);
  return found.length === 0 ? undefined : (Object.fromEntries(found) as BrokerLogin);
}

const file = (flags: string, description: string, variable: string): Option =>
  new Option(flags, description).env(variable);
