/**
 * Declares the options about history: how much of it is kept, and where the rest goes. For the
 * serving commands that trim; the archive's option also for all commands that read.
 */
import { InvalidArgumentError, Option } from "commander";
import { archiveFault, NO_ARCHIVE } from "../../../core/retention/archiveUrl.ts";
import { historyFault, type HistoryOption } from "../../../core/retention/HistoryLimits.ts";

/** As `static options = { history }` of a class. */
export const history = (): Option =>
  new Option(
    "--history <limits>",
    "history that classes without a setting of their own keep: all, or limits as in days=30,events=100000,bytes=50000000 (default: all)",
  )
    .env("AGENTS_HISTORY")
    .argParser(readHistory);

export const archive = (about: string): Option =>
  new Option("--archive <url>", `${about} (file:///var/lib/agents-archive, s3://my-bucket/agents)`)
    .env("AGENTS_ARCHIVE")
    .argParser((text: string) => {
      const fault = text === NO_ARCHIVE ? undefined : archiveFault(text);
      if (fault !== undefined) throw new InvalidArgumentError(`${fault}.`);
      return text;
    });

function readHistory(text: string): HistoryOption {
  if (text === "all") return "all";
  const limits: Record<string, number> = {};
  for (const part of text.split(",")) {
    const [, limit, value] = /^\s*(\w+)=(\d+(?:\.\d+)?)\s*$/.exec(part) ?? [];
    if (limit === undefined)
      throw new InvalidArgumentError(
        "Use all, or limits separated by commas, as in days=30,events=1000.",
      );
    if (limits[limit] !== undefined)
      throw new InvalidArgumentError(`"${text}" has ${limit} twice.`);
    limits[limit] = Number(value);
  }
  const fault = historyFault(limits);
  if (fault !== undefined) throw new InvalidArgumentError(`"${text}" ${fault}.`);
  return limits;
}
