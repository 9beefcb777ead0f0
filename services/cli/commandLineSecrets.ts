/**
 * Passwords in URLs on the command line (`--nats nats://user:password@…`, `--smtp-relay smtp://…`): every user of the
 * machine can read the command lines of its processes, so they are masked there as soon as the program runs, and
 * whoever starts it is told of the variables and files that have no such moment. Called by `main`.
 */

/** Greedy: a password may hold an `@` that should have been escaped. Commas part the URLs of a cluster. */
const USER_INFO = /:\/\/[^\s,/]*@/g;

export const withoutSecrets = (args: ReadonlyArray<string>): ReadonlyArray<string> =>
  args.map((arg) => arg.replace(USER_INFO, "://***@"));

const WARNING =
  "A URL on the command line has a login in it, which other users of this machine may have seen in the list of processes. Give it by the environment (NATS_URL, SMTP_URL) or by files (--nats-creds, --nats-nkey).";

/** Returns the line to say, if there was a login. */
export function maskCommandLine(args: ReadonlyArray<string>): string | undefined {
  const masked = withoutSecrets(args);
  if (masked.every((arg, n) => arg === args[n])) return undefined;
  // Node writes it over the process's arguments, where `ps` reads them.
  process.title = ["agents", ...masked].join(" ");
  return WARNING;
}
