/**
 * How a process shows the broker who it is, and how it knows the broker: credentials, nkey, TLS
 * files, as options of the NATS client. Files are read at each dial, so a rotated one is taken at the
 * next reconnect. Used by `NatsConnection`; user and password or a token come in the URL instead.
 */
import { readFileSync } from "node:fs";
import { credsAuthenticator, nkeyAuthenticator, type Authenticator } from "@nats-io/nats-core";
import type { NodeConnectionOptions } from "@nats-io/transport-node";

export interface NatsLogin {
  /** A `.creds` file (decentralised authentication). */
  readonly credentialsFile?: string;
  /** A file with an nkey's seed, `SU…`. */
  readonly nkeyFile?: string;
  /** PEM: authorities that the broker's certificate is checked against; left out: the system's. */
  readonly caFile?: string;
  /** PEM: this client's own certificate and key, where the broker asks for them. Both or neither. */
  readonly certFile?: string;
  readonly keyFile?: string;
}

/** `tls`: the URL asks for it. A CA or a certificate asks for it too: a broker without TLS is then refused. */
export function loginOptions(login: NatsLogin, tls: boolean): NodeConnectionOptions {
  const { credentialsFile, nkeyFile, caFile, certFile, keyFile } = login;
  const files = {
    ...(caFile === undefined ? {} : { caFile }),
    ...(certFile === undefined ? {} : { certFile }),
    ...(keyFile === undefined ? {} : { keyFile }),
  };
  const authenticator = authenticatorOf(credentialsFile, nkeyFile);
  return {
    ...(tls || Object.keys(files).length > 0 ? { tls: files } : {}),
    ...(authenticator === undefined ? {} : { authenticator }),
  };
}

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

/** The seed's line: key files may have comments around it. */
function readSeed(file: string): string {
  const seed = /^SU[A-Z2-7]{56}$/m.exec(readFileSync(file, "utf8"))?.[0];
  if (seed === undefined) throw new Error(`${file} holds no seed of a user's nkey (SU…)`);
  return seed;
}
