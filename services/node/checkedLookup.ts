/**
 * A DNS look-up for connections to hosts that strangers name (`NodeOutgoing`,
 * `services/mcp/addressGuard`). The check is part of the connection's own look-up, so no second one
 * can return other addresses.
 */
import type { LookupAddress, LookupAllOptions } from "node:dns";
import type { LookupFunction } from "node:net";

/** `dns.lookup`, as it is used here. */
export type LookupAll = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => void,
) => void;

/** Fails with the error of `refused` unless every address that the name resolves to is allowed. */
export const checkedLookup =
  (
    lookup: LookupAll,
    allows: (address: string) => boolean,
    refused: (hostname: string) => Error,
  ): LookupFunction =>
  (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error !== null) return callback(error, "", 0);
      if (found.length === 0 || !found.every(({ address }) => allows(address)))
        return callback(refused(hostname), "", 0);
      const [{ address, family }] = found as [LookupAddress];
      if (options.all) callback(null, found);
      else callback(null, address, family);
    });
  };
