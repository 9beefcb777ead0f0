/** This package's own manifest: its version, and the tools that it is developed with. */
import { readFileSync } from "node:fs";

const NAME = "turnkeep";

export interface PackageManifest {
  readonly version: string;
  /** Version ranges, by package. */
  readonly devDependencies: Readonly<Record<string, string>>;
}

/** Returns version `0.0.0` if the manifest is not found. */
export function packageManifest(): PackageManifest {
  // It is three folders up in the sources, and four up in dist.
  for (const path of ["../../../package.json", "../../../../package.json"])
    try {
      const text = readFileSync(new URL(path, import.meta.url), "utf8");
      const {
        name,
        version = "0.0.0",
        devDependencies = {},
      } = JSON.parse(text) as Partial<PackageManifest & { readonly name: string }>;
      if (name === NAME) return { version, devDependencies };
    } catch {
      continue; // not in this layout
    }
  return { version: "0.0.0", devDependencies: {} };
}
