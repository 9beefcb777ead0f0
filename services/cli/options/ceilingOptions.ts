/**
 * The command line's options for `core/turn/Ceilings`: how many things one agent may have, whatever
 * its class allows. Each option has the name of the class's option.
 */
import { Option } from "commander";
import { CEILINGS, type CeilingName, type CeilingOptions } from "../../../core/turn/Ceilings.ts";
import { readWhole } from "./options.ts";

const NAMES = Object.keys(CEILINGS) as CeilingName[];
/** Far more than one agent can have. */
const MOST = 1_000_000_000;

/** The values that commander parses for them. */
export type GivenCeilings = { readonly [K in CeilingName]?: number };

const words = (name: CeilingName, between: string): string =>
  name.replaceAll(/[A-Z]/g, (letter) => between + letter.toLowerCase());

export const ceilings = (): ReadonlyArray<Option> =>
  NAMES.map((name) => {
    const { of, most } = CEILINGS[name];
    const about = `maximum number of ${of} per agent; a class can set a lower limit (default: ${most})`;
    return new Option(`--${words(name, "-")} <count>`, about)
      .env(`AGENTS_${words(name, "_").toUpperCase()}`)
      .argParser((text: string) => readWhole(text, 1, MOST));
  });

export const ceilingsOf = (given: GivenCeilings): CeilingOptions =>
  Object.fromEntries(NAMES.map((name) => [name, given[name]]));
