/**
 * Masks passwords in URLs on the command line (`--nats nats://user:password@…`, `--smtp-relay
 * smtp://…`). Every user of the machine can read the command lines of its processes. The passwords
 * are therefore masked as soon as the program runs, and a warning names the variables and files
 * that are never exposed. Called by `main`.
 */

/**
 * Greedy: a password may contain an `@` that should have been escaped. Commas separate the URLs of
 * a cluster.
 */
const USER_INFO = /:\/\/[^\s,/]*@/g;
/** The same in a list of a broker's URLs, each of which may have no scheme. */
const BROKER_USER_INFO = /(^|,)(\s*)(\w+:\/\/)?[^\s,/]*@/g;
/** Options that accept URLs without a scheme. */
const BROKER_OPTIONS: ReadonlyArray<string> = ["--nats", "--from"];

/** Masks the logins in a broker's URLs, which commas separate. */
export const withoutLogins = (urls: string): string => urls.replace(BROKER_USER_INFO, "$1$2$3***@");

export const withoutSecrets = (args: ReadonlyArray<string>): ReadonlyArray<string> =>
  args.map((arg, n) => {
    const option = BROKER_OPTIONS.find((one) => arg.startsWith(`${one}=`));
    if (option !== undefined) return `${option}=${withoutLogins(arg.slice(option.length + 1))}`;
    if (BROKER_OPTIONS.includes(args[n - 1] ?? "")) return withoutLogins(arg);
    return arg.replace(USER_INFO, "://***@");
  });

const WARNING =
  "A URL on the command line contains a login, which other users of this machine can read in the process list. Use the environment (NATS_URL, AGENTS_FROM, SMTP_URL) or files (--nats-creds, --nats-nkey) instead.";

/** Masks the process's command line. Returns a warning to print if it had a login. */
export function maskCommandLine(args: ReadonlyArray<string>): string | undefined {
  const masked = withoutSecrets(args);
  if (masked.every((arg, n) => arg === args[n])) return undefined;
  // Node writes the title over the process's arguments, where `ps` reads them.
  process.title = ["agents", ...masked].join(" ");
  return WARNING;
}
