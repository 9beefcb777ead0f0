/**
 * The options that authenticate a command to the broker, in addition to the URL of `--nats`: files
 * with credentials, an nkey's seed, or certificates. The environment variables have the names that
 * NATS's own command-line tool reads.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import { messageOf } from "../../../core/errors/thrown.ts";
import type { BrokerLogin } from "../../wiring/ReadPorts.ts";
import { usage } from "../terminal/CliError.ts";

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

/** Each file, with the option that names it. */
const LOGIN_OPTIONS: ReadonlyArray<readonly [keyof BrokerLogin, keyof GivenLogin, flag: string]> = [
  ["credentialsFile", "natsCreds", "--nats-creds"],
  ["nkeyFile", "natsNkey", "--nats-nkey"],
  ["caFile", "natsCa", "--nats-ca"],
  ["certFile", "natsCert", "--nats-cert"],
  ["keyFile", "natsKey", "--nats-key"],
];

/**
 * Returns absolute paths, or undefined if no option is given. Throws `CliError` for a file that
 * can't be read, which would later look as if the broker did not answer.
 */
export function loginOf(given: GivenLogin, cwd: string): BrokerLogin | undefined {
  const login: { -readonly [name in keyof BrokerLogin]: string } = {};
  for (const [name, option, flag] of LOGIN_OPTIONS) {
    const path = given[option];
    if (path === undefined || path === "") continue;
    login[name] = resolve(cwd, path);
    try {
      readFileSync(login[name]);
    } catch (error) {
      throw usage(`${flag} ${path} can't be read: ${messageOf(error)}`);
    }
  }
  return Object.keys(login).length === 0 ? undefined : login;
}

/** The options that give another command the same login. */
export const loginArguments = (login: BrokerLogin = {}): ReadonlyArray<string> =>
  LOGIN_OPTIONS.flatMap(([name, , flag]) => (login[name] === undefined ? [] : [flag, login[name]]));

const file = (flags: string, description: string, variable: string): Option =>
  new Option(flags, description).env(variable);
