/** The files that modules of the reference's platform are here. */
import { ownFile } from "../ownPackage/ownFile.ts";

/** URLs, by specifier. */
export const platformFiles = (): ReadonlyMap<string, string> =>
  new Map([
    ["cloudflare:workers", ownFile("services/platform/index").href],
    ["cloudflare:workflows", ownFile("services/platform/workflows").href],
    ["cloudflare:email", ownFile("services/platform/email").href],
  ]);
