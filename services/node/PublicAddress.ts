/**
 * Decides which IP addresses belong to the public internet: the addresses that a server may reach
 * when it calls URLs of strangers. Based on IANA's special-purpose registries, which include
 * metadata services (169.254.169.254, fd00:ec2::254). An IPv4 address embedded in an IPv6 address
 * is judged as that IPv4 address.
 */
import { BlockList, isIP, isIPv4 } from "node:net";

const special = new BlockList();
for (const [network, prefix] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
] as const)
  // prettier-ignore
  special.addSubnet(network, prefix, "ipv4");

/** All allocated unicast IPv6. Excluded from it: protocol assignments, documentation, 6to4. */
const global6 = new BlockList();
global6.addSubnet("2000::", 3, "ipv6");
for (const [network, prefix] of [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
] as const)
  // prettier-ignore
  special.addSubnet(network, prefix, "ipv6");

/** NAT64's well-known prefix: the last 32 bits of an address are the IPv4 destination. */
const nat64 = new BlockList();
nat64.addSubnet("64:ff9b::", 96, "ipv6");
const mapped = new BlockList();
mapped.addSubnet("::ffff:0:0", 96, "ipv6");

/** False also for text that is no IP address. IPv6 may have brackets or a zone. */
export function isPublicAddress(address: string): boolean {
  const bare = address.replace(/^\[|\]$|%.*$/g, "");
  if (isIP(bare) === 0) return false;
  if (isIPv4(bare)) return !special.check(bare, "ipv4");
  if (nat64.check(bare, "ipv6") || mapped.check(bare, "ipv6"))
    return !special.check(lastFourBytes(bare), "ipv4");
  return global6.check(bare, "ipv6") && !special.check(bare, "ipv6");
}

/** The last 32 bits of an IPv6 address, in IPv4 notation. */
function lastFourBytes(address: string): string {
  const dotted = /(\d+\.\d+\.\d+\.\d+)$/.exec(address)?.[1];
  if (dotted !== undefined) return dotted;
  // The URL parser writes every form of an IPv6 address in the same way.
  const groups = new URL(`http://[${address}]/`).hostname.slice(1, -1).split("::");
  const tail = (groups.at(-1) ?? "").split(":").filter((group) => group !== "");
  const [high = 0, low = 0] = ["0", "0", ...tail].slice(-2).map((group) => parseInt(group, 16));
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join(".");
}
