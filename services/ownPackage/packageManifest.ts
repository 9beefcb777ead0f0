/** This package's own manifest: its version, and the tools that it is developed with. */
import { readFileSync } from "node:fs";
import { packageFolder } from "./ownFile.ts";

interface PackageManifest {
  readonly version: string;
  /** Version ranges, by package. */
  readonly devDependencies: Readonly<Record<string, string>>;
}

export function packageManifest(): PackageManifest {
  const text = readFileSync(new URL("package.json", packageFolder), "utf8");
  return JSON.parse(text) as PackageManifest;
}
