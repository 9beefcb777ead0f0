/**
 * `turnkeep init [folder]`: writes a new project from the package's own templates (`projectFiles`).
 * Needs no network, and changes no file that exists.
 */
import { existsSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { Option, type Command } from "commander";
import { projectFiles, type ProjectChoices } from "./projectFiles.ts";
import { STARTER_NAMES, STARTERS, type Starter, type StarterName } from "./starters.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { makeFolder } from "../terminal/makeFolder.ts";
import { packageManifest } from "../../ownPackage/packageManifest.ts";
import { failed } from "../terminal/CliError.ts";
import { shownPath, type Terminal } from "../terminal/Terminal.ts";

/** The values that commander parses. */
interface Given {
  readonly webhooks: StarterName;
  readonly page: boolean;
  readonly strict: boolean;
  readonly turnkeep?: string;
}

export function addInit(program: Command, { terminal }: CommandContext): void {
  const senders = STARTER_NAMES.map((name) => `${name} (${STARTERS[name].summary})`);
  program
    .command("init")
    .description(
      "Writes a new project: an agent with a verified webhook, a test, a page, and the settings of TypeScript, npm and git. Existing files are never changed.",
    )
    .argument("[folder]", "target folder; created if it does not exist", ".")
    .addOption(
      new Option("--webhooks <sender>", "the sender of the agent's webhooks")
        .choices(STARTER_NAMES)
        .default("github"),
    )
    .addOption(new Option("--no-page", "leave out the page that shows an agent live"))
    .addOption(new Option("--no-strict", "turn off TypeScript's strict checks"))
    .addOption(
      new Option(
        "--turnkeep <spec>",
        "version of turnkeep for package.json, e.g. file:../turnkeep-0.32.0.tgz (default: this version)",
      ),
    )
    .addHelpText(
      "after",
      `\nSenders:\n${senders.map((sender) => `  ${sender}`).join("\n")}\n\nExample:\n  npx turnkeep init my-agents --webhooks stripe`,
    ) // prettier-ignore
    .action((folder: string, given: Given) => init(terminal, folder, given));
}

/**
 * Prints the next commands. Throws `CliError` if a file that it would write exists, and the
 * system's error if the folder can't be written.
 */
export function init(terminal: Terminal, folder: string, given: Given): void {
  const target = resolve(terminal.cwd, folder);
  const { version, devDependencies } = packageManifest();
  const starter: Starter = STARTERS[given.webhooks];
  const tool = (name: keyof ProjectChoices["tools"]): string => devDependencies[name] ?? "*";
  const files = projectFiles({
    name: projectName(basename(target)),
    starter,
    page: given.page,
    strict: given.strict,
    packageSpec: given.turnkeep ?? `^${version}`,
    tools: {
      "@types/node": tool("@types/node"),
      typescript: tool("typescript"),
      vitest: tool("vitest"),
    },
  });
  const taken = files.filter(({ path }) => existsSync(join(target, path)));
  if (taken.length > 0)
    throw failed(
      `${taken.map(({ path }) => shownPath(terminal.cwd, join(target, path))).join(", ")} ${taken.length === 1 ? "exists" : "exist"} already. Nothing was written. Use a new folder: turnkeep init my-agents`,
    );
  makeFolder(target);
  for (const { path, text } of files) writeFileSync(join(target, path), text, { flag: "wx" });
  const shown = shownPath(terminal.cwd, target);
  terminal.out(
    `Wrote ${files.map(({ path }) => path).join(", ")}${shown === "." ? "" : ` to ${shown}`}.`,
  );
  terminal.out("");
  if (shown !== ".") terminal.out(`  cd ${shown}`);
  terminal.out("  npm install");
  terminal.out(`  npm start       # prints a URL${starter.curl ? " and a signed curl" : ""}`);
  terminal.out("  npm test");
}

/** npm's rules for names: lower case, and nothing that a URL escapes. */
const projectName = (folder: string): string =>
  folder
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, "-")
    .replace(/^-+|-+$/g, "") || "my-agents";
