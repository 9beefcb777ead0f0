/** The fixture's module as the classes and the routing of an installation. */
import { readModule } from "../../services/module/readModule.ts";
import type { TestModule } from "../kit/system.ts";
import * as objects from "./objectsModule.ts";

/** Exports that a configuration file binds. */
const BOUND = ["Counter", "Legacy"];

export function objectsModule(): TestModule {
  const { agents, webhooks, fetch } = readModule({ ...objects }, "objectsModule.ts", [], BOUND);
  return {
    agents: Object.fromEntries(agents) as TestModule["agents"],
    webhooks,
    env: { SECRET: "It's a Secret to Everybody" },
    fetch: fetch as NonNullable<TestModule["fetch"]>,
  };
}
