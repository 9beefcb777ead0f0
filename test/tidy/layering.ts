/** Which folder may import which (house style, rules 1-3). */
import { posix } from "node:path";
import { isJoin, SERVICE_FOLDERS } from "./folders.ts";
import type { Finding } from "./rules.ts";
import { lineOf, type SourceFile } from "./SourceFile.ts";

export interface Import {
  readonly line: number;
  readonly specifier: string;
  /** Path in the repository that a relative import means; undefined for packages. */
  readonly target: string | undefined;
  /** `import type`: nothing of it is left at run time. */
  readonly isType: boolean;
  /** The statement up to the specifier, with the names that it imports. */
  readonly clause: string;
}

const IMPORT =
  /(?:\b(?:import|export)\b[^;"'`]*?\bfrom\s*|\bimport\s*\(?\s*|\bnew URL\(\s*|\bregisterHooks\([^"]*)(["'`])([^"'`\n]+)\1/g;

export function importsOf({ path, uncommented }: SourceFile): Import[] {
  return [...uncommented.matchAll(IMPORT)].map((match) => {
    const specifier = match[2]!;
    const relative = specifier.startsWith(".");
    return {
      line: lineOf(uncommented, match.index + match[0].length),
      specifier,
      target: relative ? posix.join(posix.dirname(path), specifier) : undefined,
      isType: /^\w+ type\b/.test(match[0]),
      clause: match[0],
    };
  });
}

/** Packages that `schemas` and `core` may import. */
const PURE = /^effect(?:\/|$)/;

export function layering(file: SourceFile): Omit<Finding, "path">[] {
  const layer = file.path.split("/")[0]!;
  const folder = layer === "services" ? file.path.split("/")[1]! : undefined;
  if (folder !== undefined && SERVICE_FOLDERS[folder] === undefined)
    return [
      { line: 1, message: `services/${folder} is unknown: say what it is in test/tidy/folders.ts` },
    ];
  if (!["schemas", "core", "services", "examples"].includes(layer)) return [];
  return importsOf(file).flatMap((found) => {
    const message = forbidden(file.path, layer, folder, found);
    return message === undefined
      ? []
      : [{ line: found.line, message: `imports "${found.specifier}": ${message}` }];
  });
}

function forbidden(
  path: string,
  layer: string,
  folder: string | undefined,
  { specifier, target, isType }: Import,
): string | undefined {
  const to = target?.split("/")[0];
  if (to === "test") return "nothing imports test; move what both need out of it";
  if (layer === "examples")
    return to !== undefined && to !== "examples"
      ? 'an example imports "agents", as a user does'
      : undefined;
  if (layer === "schemas" || layer === "core") {
    if (target === undefined)
      return PURE.test(specifier)
        ? undefined
        : `${layer} imports effect and nothing else from outside: put it behind a port and implement that in services`;
    const allowed = layer === "schemas" ? ["schemas"] : ["schemas", "core"];
    return allowed.includes(to!)
      ? undefined
      : `${layer} must not know ${to}: turn it into a port in core`;
  }
  // What commands print types the page that shows it; no code of theirs is in its bundle.
  if (folder === "consolePage" && isType) return undefined;
  return target === undefined ? undefined : betweenServices(path, folder!, target);
}

function betweenServices(path: string, from: string, target: string): string | undefined {
  const [layer, to] = target.split("/");
  const kind = SERVICE_FOLDERS[from]!.kind;
  if (
    kind === "client" &&
    layer !== "schemas" &&
    to !== from &&
    SERVICE_FOLDERS[to!]?.kind !== "client"
  )
    return "the client library imports schemas only";
  if (layer !== "services" || to === from) return undefined;
  const toKind = SERVICE_FOLDERS[to!]?.kind;
  if (isJoin(path)) return undefined;
  if (toKind === "process")
    return `only main.ts and cli/dev.ts start processes: ${kind === "process" ? "share it through core" : `${kind}s don't know them`}`;
  if (kind === "process" && toKind === "adapter")
    return "a process knows ports only: take the port, and let main.ts provide the adapter";
  // Node itself is always there.
  if (kind === "entry" && toKind === "adapter" && to !== "node")
    return "what users import must not pull an adapter in: take the port";
  return undefined;
}
