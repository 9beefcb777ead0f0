/**
 * The name under which an app has installed this package: `turnkeep`, or `agents` as an alias of it
 * or of the sources. Errors say `agents` where they name an entry; an app that has installed the
 * package as `turnkeep` reads that name.
 */
import { packageFolder } from "./ownFile.ts";

type PackageName = "agents" | "turnkeep";

/** `folder`: the URL of this package's folder. */
export const installedName = (folder = packageFolder): PackageName =>
  folder.endsWith("/node_modules/turnkeep/") ? "turnkeep" : "agents";

/** The text with the installed name in each quoted specifier, as in `from "agents/webhooks"`. */
export const underInstalledName = (text: string, name = installedName()): string =>
  text.replace(/"agents(?=["/])/g, `"${name}`);
