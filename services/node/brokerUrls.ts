/**
 * Reads the broker's URLs, as `--nats` and `NATS_URL` have them: separated by commas, each with or
 * without `nats://`. Shared by the connection, what a process says of its broker, and what a sealed
 * process may connect to. No error shows a part of them, which may be a password's.
 */
import { BrokerUnavailable } from "../../core/bus/Bus.ts";

const COMMA =
  "one of the broker's URLs (--nats, NATS_URL) can't be read: write a comma in a user name or password as %2C, and nats:// before each server";
const INVALID =
  "one of the broker's URLs (--nats, NATS_URL) is invalid: write nats://user:password@host:port, with % / @ : and , of the user name and password as %25 %2F %40 %3A and %2C";

/** Throws `BrokerUnavailable` for one that can't be read. */
export function brokerUrls(given: string | ReadonlyArray<string>): ReadonlyArray<URL> {
  const parts = (typeof given === "string" ? given.split(",") : given).map((part) => part.trim());
  parts.forEach((part, i) => {
    // The comma before it may be part of a login that began there.
    const mayBeRest = i > 0 && part.includes("@") && !part.includes("://");
    if (mayBeRest && !parts[i - 1]!.includes("@")) throw new BrokerUnavailable({ message: COMMA });
  });
  return parts.map((part) => {
    const url = part.includes("://") ? part : `nats://${part}`;
    if (!isReadable(url)) throw new BrokerUnavailable({ message: INVALID });
    return new URL(url);
  });
}

/** Whether its user name and password can be decoded, too. */
function isReadable(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { username, password } = new URL(url);
  try {
    decodeURIComponent(username + password);
    return true;
  } catch {
    return false;
  }
}
