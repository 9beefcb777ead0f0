/**
 * Which values of the `Host` header a server answers: the defence of a server on a loopback address
 * against DNS rebinding. A page of evil.example that has its own name resolve to 127.0.0.1 is of
 * the same origin as the server there, for the browser, but its requests still say `Host:
 * evil.example`. Pure; asked by the gateway and the private port.
 */

export interface ServedHosts {
  /** Names and addresses beside loopback's, lower-case and without a port. */
  readonly names: ReadonlyArray<string>;
  /** Whether any IP address is answered, too. No web page can have one as its own name. */
  readonly addresses: boolean;
}

const HOST = /^(?:\[([0-9a-f:.]+)\]|([^:[\]@/\\?#\s]+))(?::\d*)?$/;
const IPV4 = /^\d{1,3}(?:\.\d{1,3}){3}$/;

/** The name or the address in a `Host` header, without the port; undefined: it is none. */
export function hostNameOf(header: string): string | undefined {
  const [, address, name] = HOST.exec(header.toLowerCase()) ?? [];
  // A name may end with the dot of the root.
  return address ?? name?.replace(/\.$/, "");
}

/** `localhost` and names below it, 127.0.0.0/8, ::1. */
export const isLoopbackHost = (name: string): boolean =>
  name === "localhost" ||
  name.endsWith(".localhost") ||
  name === "::1" ||
  /^127(?:\.\d{1,3}){3}$/.test(name);

/** Without a header (HTTP/1.0) this server is meant. */
export function servesHost(hosts: ServedHosts, header: string | undefined): boolean {
  if (header === undefined) return true;
  const name = hostNameOf(header);
  if (name === undefined) return false;
  if (isLoopbackHost(name) || hosts.names.includes(name)) return true;
  return hosts.addresses && (IPV4.test(name) || name.includes(":"));
}
