/**
 * Decides which addresses an MCP server may have (`core/mcp/McpClients`, rule 1): those of the
 * public internet. Addresses of this machine are allowed if the operator says so (`agents dev`,
 * `--mcp-allow-loopback`), and only for a server whose own URL names this machine. No outside
 * server can then reach this machine through a redirect or an OAuth address.
 */
import { lookup } from "node:dns";
import { BlockList, isIP, isIPv4, type LookupFunction } from "node:net";
import { checkedLookup } from "../node/checkedLookup.ts";
import { isPublicAddress } from "../node/PublicAddress.ts";

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

const isLoopback = (address: string): boolean =>
  isIP(address) !== 0 && loopback.check(address, isIPv4(address) ? "ipv4" : "ipv6");

const bareHost = (url: URL): string => url.hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");

const namesLoopback = (url: URL): boolean =>
  /(?:^|\.)localhost$/i.test(bareHost(url)) || isLoopback(bareHost(url));

const isWeb = ({ protocol }: URL): boolean => protocol === "https:" || protocol === "http:";

/** The address may not be connected to. */
export class BlockedAddress extends Error {
  constructor(what: string) {
    super(`Blocked URL: ${what}`);
  }
}

export interface AddressGuard {
  /** Throws `BlockedAddress` for what is known before the name is resolved. */
  readonly check: (url: URL) => void;
  /** A look-up that fails unless every address is allowed. */
  readonly lookup: LookupFunction;
  readonly allows: (address: string) => boolean;
}

interface GuardOptions {
  /** As `McpClientsOptions`. */
  readonly allowLoopback: boolean;
}

/** Why `href` may not be a server's URL, without resolving it. Undefined when it may be. */
export function refusal(href: string, options: GuardOptions): string | undefined {
  if (!URL.canParse(href)) return "it is not a URL";
  const url = new URL(href);
  if (!isWeb(url)) return "it begins with neither https:// nor http://";
  if (url.username !== "" || url.password !== "") return "it contains a user name or password";
  if (namesLoopback(url) && !options.allowLoopback)
    return "it is this machine, which is only allowed in agents dev or with --mcp-allow-loopback";
  try {
    addressGuard(url, options).check(url);
    return undefined;
  } catch {
    return "it is not an address of the public internet";
  }
}

/** The guard for all requests made on behalf of `server`. */
export function addressGuard(server: URL, { allowLoopback }: GuardOptions): AddressGuard {
  const local = allowLoopback && namesLoopback(server);
  const allows = (address: string): boolean =>
    isPublicAddress(address) || (local && isLoopback(address));
  return {
    allows,
    check: (url) => {
      const host = bareHost(url);
      const barred = isIP(host) === 0 ? namesLoopback(url) && !local : !allows(host);
      if (!isWeb(url) || host === "" || barred) throw new BlockedAddress(url.origin);
    },
    lookup: checkedLookup(lookup, allows, (host) => new BlockedAddress(host)),
  };
}
