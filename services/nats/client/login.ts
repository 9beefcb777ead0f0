/**
 * Translates a process's credentials and TLS files into options of the NATS client. Credential
 * files are read at each dial, so a rotated one takes effect at the next reconnect. Used by
 * `NatsConnection`. A user and password, or a token, are part of the URL instead.
 */
import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { checkServerIdentity, type PeerCertificate } from "node:tls";
import { credsAuthenticator, nkeyAuthenticator, type Authenticator } from "@nats-io/nats-core";
import type { NodeConnectionOptions } from "@nats-io/transport-node";
import { defined } from "../../../core/collections/defined.ts";

export interface NatsLogin {
  /** A `.creds` file (decentralised authentication). */
  readonly credentialsFile?: string;
  /** A file with the seed of a user's nkey (`SU…`). */
  readonly nkeyFile?: string;
  /** PEM: the authorities that verify the broker's certificate. Default: those of the system. */
  readonly caFile?: string;
  /** PEM: this client's certificate and key, where the broker requires them. Both or neither. */
  readonly certFile?: string;
  readonly keyFile?: string;
}

/**
 * `tls`: the URL requires TLS. A CA or a certificate requires it too; a broker without TLS is
 * refused then. `hosts`: the names and addresses of the servers.
 */
export function loginOptions(
  login: NatsLogin,
  { tls, hosts }: { readonly tls: boolean; readonly hosts: ReadonlyArray<string> },
): NodeConnectionOptions {
  const { credentialsFile, nkeyFile, caFile, certFile, keyFile } = login;
  const files = defined({ caFile, certFile, keyFile });
  const authenticator = authenticatorOf(credentialsFile, nkeyFile);
  // The client passes this on to Node together with the files.
  const tlsOptions = { ...files, checkServerIdentity: identityCheck(hosts) };
  return {
    ...(tls || Object.keys(files).length > 0 ? { tls: tlsOptions } : {}),
    ...(authenticator === undefined ? {} : { authenticator }),
  };
}

/**
 * Node takes the host of a server that is configured by its address for "localhost", because the
 * client hands it an open socket and an address is no TLS server name. Such a server has to show a
 * certificate for one of the configured addresses: the check does not know which one was dialed.
 */
function identityCheck(hosts: ReadonlyArray<string>) {
  const unnamed = hosts.filter((host) => isIP(host) !== 0 || host === UNNAMED);
  return (host: string, certificate: PeerCertificate): Error | undefined => {
    const accepted = host === UNNAMED && unnamed.length > 0 ? unnamed : [host];
    const errors = accepted.map((name) => checkServerIdentity(name, certificate));
    return errors.includes(undefined) ? undefined : errors[0];
  };
}

/** What Node calls a host without a name. */
const UNNAMED = "localhost";

function authenticatorOf(
  credentialsFile: string | undefined,
  nkeyFile: string | undefined,
): Authenticator | undefined {
  if (credentialsFile !== undefined)
    return (nonce) => credsAuthenticator(readFileSync(credentialsFile))(nonce);
  if (nkeyFile !== undefined)
    return (nonce) => nkeyAuthenticator(Buffer.from(readSeed(nkeyFile)))(nonce);
  return undefined;
}

/** Finds the seed's line; key files may contain comments. */
function readSeed(file: string): string {
  const seed = /^SU[A-Z2-7]{56}$/m.exec(readFileSync(file, "utf8"))?.[0];
  if (seed === undefined)
    throw new Error(`${file} does not contain the seed of a user's nkey (SU…)`);
  return seed;
}
