/**
 * What every command about a running installation has in common: the options that say which one, and a
 * connection to it that is open for as long as the command works.
 */
import { resolve } from "node:path";
import type { Command } from "commander";
import { addLoginOptions, loginOf, type GivenLogin } from "./brokerLogin.ts";
import { findTarget } from "./findTarget.ts";
import type { Joins, ReadPorts } from "../wiring/Joins.ts";
import * as options from "./options.ts";
import type { Terminal } from "./Terminal.ts";

/** What commander gives for them. */
export interface GivenTarget extends GivenLogin {
  readonly json?: boolean;
  readonly nats?: string;
  readonly namespace?: string;
  readonly data: string;
}

export const addTargetOptions = (command: Command): Command =>
  addLoginOptions(
    command
      .addOption(options.json())
      .addOption(options.nats())
      .addOption(options.namespace())
      .addOption(options.data()),
  );

export const withPortsOf =
  (joins: Pick<Joins, "openReader">, terminal: Pick<Terminal, "cwd">) =>
  async (given: GivenTarget, use: (ports: ReadPorts) => Promise<void>): Promise<void> => {
    const ports = await joins.openReader(
      findTarget({
        nats: given.nats,
        login: loginOf(given, terminal.cwd),
        namespace: given.namespace,
        dataFolder: resolve(terminal.cwd, given.data),
        cwd: terminal.cwd,
      }),
    );
    try {
      await use(ports);
    } finally {
      await ports.close();
    }
  };
