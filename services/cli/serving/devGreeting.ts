/**
 * Builds the lines that `agents dev` prints once it serves: all addresses and folders, and one
 * signed request to paste.
 */
import { targetsOf, type WebhookRoute } from "../../../core/webhook/WebhookRoute.ts";
import type { LoadedModule } from "../../module/LoadedModule.ts";
import { shownPath } from "../terminal/Terminal.ts";
import { devSecretsPath } from "./devSecrets.ts";
import { settingsPage } from "./settingsPages.ts";
import { signedCurl } from "./signedCurl.ts";

interface Greeting {
  readonly module: LoadedModule;
  readonly env: Readonly<Record<string, string>>;
  readonly envFiles: ReadonlyArray<string>;
  readonly devSecrets: ReadonlyArray<string>;
  readonly url: string;
  /** The public URL, if a tunnel leads here. */
  readonly tunnel?: string | undefined;
  /** The address for incoming mail; undefined if the process receives no mail. */
  readonly smtp?: string | undefined;
  readonly admin: string;
  /** The URL that opens the console; undefined if it can't be served. */
  readonly console?: string | undefined;
  readonly nats: string;
  readonly dataFolder: string;
  readonly cwd: string;
  /** True if a person reads the output at a terminal. */
  readonly interactive: boolean;
  readonly nowSeconds: number;
}

export function devGreeting(greeting: Greeting): ReadonlyArray<string> {
  const { module, url, cwd, dataFolder, envFiles } = greeting;
  const short = (path: string): string => shownPath(cwd, path);
  const row = (name: string, text: string): string => `  ${name.padEnd(13)}${text}`;
  const curl = module.webhooks
    .map((route) => signedCurl(route, { url, env: greeting.env, nowSeconds: greeting.nowSeconds }))
    .find((command) => command !== undefined);

  return [
    `agents dev: ${short(module.file)}`,
    "",
    row("url", url),
    ...(greeting.tunnel === undefined ? [] : [row("public url", greeting.tunnel)]),
    ...module.webhooks.map((route) =>
      row(
        "webhook",
        `POST ${url}${route.path} → ${targetsOf(route, undefined)
          .map(({ agent }) => agent)
          .join(", ")} (${route.verifier.provider})`,
      ),
    ),
    ...(greeting.smtp === undefined ? [] : [row("mail", greeting.smtp)]),
    row("agents", [...module.agents.keys()].join(", ")),
    row("nats-server", greeting.nats),
    ...(greeting.console === undefined ? [] : [row("console", greeting.console)]),
    row("metrics", `${greeting.admin}/metrics`),
    row("data", short(dataFolder)),
    ...(envFiles.length > 0 ? [row("environment", envFiles.map(short).join(", "))] : []),
    ...(greeting.devSecrets.length > 0
      ? [row("secrets", generatedSecrets(greeting.devSecrets, dataFolder, cwd))]
      : []),
    ...(greeting.tunnel === undefined
      ? []
      : publicRoutes(greeting.tunnel, module, { ...module.wrangler?.vars, ...greeting.env })),
    ...(curl === undefined
      ? []
      : ["", "To send a signed webhook, run this in another terminal:", "", curl]),
    "",
    greeting.interactive && greeting.console !== undefined
      ? "Press o and Enter to open the console, Ctrl-C to stop."
      : "Press Ctrl-C to stop.",
  ];
}

/** Which secrets were generated, and where they are. */
export const generatedSecrets = (
  names: ReadonlyArray<string>,
  dataFolder: string,
  cwd: string,
): string =>
  `${names.join(", ")}: generated for development, in ${shownPath(cwd, devSecretsPath(dataFolder))}`;

/** What to enter at each provider. */
const publicRoutes = (
  tunnel: string,
  module: LoadedModule,
  env: Readonly<Record<string, unknown>>,
): ReadonlyArray<string> =>
  module.webhooks.flatMap((route) => {
    const { provider } = route.verifier;
    const url = tunnel + route.path;
    return [
      "",
      `Enter this URL for ${provider} (${settingsPage(provider)}):`,
      `  ${url}`,
      ...urlWarning(route, url, env),
    ];
  });

/** Lines for a route whose verifier expects another URL than the tunnel's; none for others. */
function urlWarning(
  { verifier, redaction }: WebhookRoute,
  url: string,
  env: Readonly<Record<string, unknown>>,
): ReadonlyArray<string> {
  const signed = verifier.signedUrl?.({ url, env }) ?? url;
  if (signed === url) return [];
  if (typeof signed !== "string") return [`  Its webhooks are answered 500: ${signed.message}.`];
  return [
    `  Its webhooks are refused: ${verifier.provider}({ url }) makes the signed URL ${redaction.url(signed)}.`,
    "  Remove that option, or set it to the tunnel's URL.",
  ];
}
