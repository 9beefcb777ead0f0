/**
 * The nats-server versions that the system supports: parses the version that a binary prints, and
 * decides whether it is new enough. `findNatsServer` checks every candidate with it, and `openNats`
 * the server that it is connected to.
 *
 * Timers and take-over depend on scheduled messages, batch publishing and consumer reset. These are
 * complete and free of known loss in two release lines: 2.12 from 2.12.14, and everything from
 * 2.14.4. (There is no 2.13 line.)
 */

export interface ServerVersion {
  readonly major: number;
  readonly minor: number;
  readonly patch: number;
  /** True for `-RC.1`, `-beta` and so on, which precede the release of the same number. */
  readonly isPrerelease: boolean;
}

/** The rule of `isNewEnough`, for messages. */
export const NEEDED_VERSION_TEXT = "2.12.14 or newer in the 2.12 line, or 2.14.4 or newer";

/** Parses the output of `nats-server --version` (`nats-server: v2.14.5`), else undefined. */
export function parseVersion(printed: string): ServerVersion | undefined {
  const match = /nats-server: v?(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?/.exec(printed);
  if (match === null) return undefined;
  return {
    major: Number(match[1]),
    minor: Number(match[2]),
    patch: Number(match[3]),
    isPrerelease: match[4] !== undefined,
  };
}

/** True if the whole system works on this version. */
export function isNewEnough(version: ServerVersion): boolean {
  if (version.major === 2 && version.minor === 12) return isAtLeast(version, 2, 12, 14);
  return isAtLeast(version, 2, 14, 4);
}

/** `2.14.5`, or `2.14.5 (prerelease)`. */
export function versionText(version: ServerVersion): string {
  const numbers = `${version.major}.${version.minor}.${version.patch}`;
  return version.isPrerelease ? `${numbers} (prerelease)` : numbers;
}

function isAtLeast(version: ServerVersion, major: number, minor: number, patch: number): boolean {
  if (version.major !== major) return version.major > major;
  if (version.minor !== minor) return version.minor > minor;
  if (version.patch !== patch) return version.patch > patch;
  return !version.isPrerelease;
}
