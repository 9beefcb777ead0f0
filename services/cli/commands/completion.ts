/**
 * `agents completion bash|zsh|fish`: prints a script that completes commands, their parts and their
 * options. The script contains the commands of this release and runs nothing when Tab is pressed.
 * Load it again after an upgrade.
 */
import { Argument, Command } from "commander";
import type { CommandContext } from "../options/CommandContext.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = (typeof SHELLS)[number];

/** The words that may follow `path`, such as those after `agents dead`. */
interface Level {
  /** Words after the program's name, separated by blanks. */
  readonly path: string;
  readonly words: ReadonlyArray<{ readonly word: string; readonly about: string }>;
}

export function addCompletion(program: Command, context: CommandContext): void {
  program
    .command("completion")
    .description("Prints a script that completes commands and options with Tab.")
    .addArgument(new Argument("<shell>", "the shell to write it for").choices(SHELLS))
    .addHelpText(
      "after",
      `
Examples:
  agents completion bash > /etc/bash_completion.d/agents
  agents completion zsh > "\${fpath[1]}/_agents"
  agents completion fish | tee ~/.config/fish/completions/{agents,turnkeep}.fish`,
    )
    .action(async (shell: Shell) => {
      const levels = await levelsOf(context);
      context.terminal.out(SCRIPTS[shell](levels));
    });
}

async function levelsOf(context: CommandContext): Promise<ReadonlyArray<Level>> {
  const whole = new Command();
  for (const { load, summary } of context.commands) {
    (await load())(whole, context);
    whole.commands.at(-1)!.summary(summary);
  }
  const levels: Level[] = [];
  const visit = (command: Command, path: string): void => {
    const parts = command.commands.map((part) => ({ word: part.name(), about: part.summary() }));
    const options = command.options
      .filter(({ hidden }) => !hidden)
      .map(({ long, description }) => ({ word: long ?? "", about: description }));
    levels.push({ path, words: [...parts, ...options, { word: "--help", about: "show help" }] });
    for (const part of command.commands) visit(part, `${path} ${part.name()}`.trim());
  };
  visit(whole, "");
  return levels;
}

/** Text that can stand in single quotes in all three shells. */
const plain = (text: string): string => text.replaceAll("'", "’").replaceAll(":", " –").replace(/\s+/g, " "); // prettier-ignore
const wordsOf = ({ words }: Level): string => words.map(({ word }) => word).join(" ");

const SCRIPTS: Readonly<Record<Shell, (levels: ReadonlyArray<Level>) => string>> = {
  bash: (levels) =>
    `_agents() {
  local path="" word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) ;; *) path="$path $word" ;; esac
  done
  local cur="\${COMP_WORDS[COMP_CWORD]}" words=""
  case "\${path# }" in
${levels
  .toSorted((a, b) => b.path.length - a.path.length)
  .map(
    (level) => `    ${level.path === "" ? '""' : `"${level.path}"*`}) words="${wordsOf(level)}" ;;`,
  )
  .join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  [ \${#COMPREPLY[@]} -eq 0 ] && COMPREPLY=($(compgen -f -- "$cur"))
}
complete -o filenames -F _agents agents turnkeep`,
  zsh: (levels) =>
    `#compdef agents turnkeep
_agents() {
  local path="" word
  for word in "\${words[@]:1:$((CURRENT - 2))}"; do
    case "$word" in -*) ;; *) path="$path $word" ;; esac
  done
  local -a found
  case "\${path# }" in
${levels
  .toSorted((a, b) => b.path.length - a.path.length)
  .map(
    (level) =>
      `    ${level.path === "" ? '""' : `"${level.path}"*`}) found=(${level.words.map(({ word, about }) => `'${word}:${plain(about)}'`).join(" ")}) ;;`,
  )
  .join("\n")}
  esac
  _describe 'agents' found || _files
}
if [ "$funcstack[1]" = "_agents" ]; then _agents "$@"; else compdef _agents agents turnkeep; fi`,
  fish: (levels) =>
    levels
      .flatMap((level) =>
        level.words.flatMap(({ word, about }) => {
          const seen = level.path === "" ? "__fish_use_subcommand" : level.path.split(" ").map((part) => `__fish_seen_subcommand_from ${part}`).join("; and "); // prettier-ignore
          const what = word.startsWith("--") ? `-l ${word.slice(2)}` : `-f -a ${word}`;
          return ["agents", "turnkeep"].map(
            (name) => `complete -c ${name} -n '${seen}' ${what} -d '${plain(about)}'`,
          );
        }),
      )
      .join("\n"),
};
