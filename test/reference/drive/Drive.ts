/** How one example is driven, and why it differs where it does. */
import type { Driver } from "./Driver.ts";
import type { LocalServices } from "./LocalServices.ts";

export interface Drive {
  /** Variables that its README asks for. */
  readonly env?: (services: LocalServices) => Readonly<Record<string, string>>;
  readonly run: (driver: Driver, services: LocalServices) => Promise<void>;
  /** Why a thing that is seen differs, by its name. `everything`: all of it. */
  readonly reasons?: Readonly<Record<string, string>>;
}
