/** Completion scripts, as the shells that are here read them. */
import { spawnSync } from "node:child_process";
import { expect, it } from "vitest";
import { COMMANDS } from "../../services/cli/commandList.ts";
import { CliFixture } from "./fixture.ts";

const cli = new CliFixture();
const scriptFor = async (shell: string) => (await cli.run(["completion", shell])).out;

/** The completions of Tab after a command line. */
async function offered(line: string): Promise<string[]> {
  const words = line.split(" ");
  const script = `${await scriptFor("bash")}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}
_agents; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr, status } = spawnSync("bash", ["-c", script], { encoding: "utf8" });
  expect([status, stderr]).toEqual([0, ""]);
  return stdout.trim().split("\n");
}

it("bash completes commands, their subcommands, and the options of the current command", async () => {
  expect(await offered("agents hi")).toEqual(["history"]);
  expect(await offered("agents ")).toEqual([...COMMANDS.map(({ name }) => name), "--help"]);
  expect(await offered("agents dead re")).toEqual(["redrive"]);
  expect(await offered("agents history RepoAgent x --fo")).toEqual(["--follow"]);
  expect(await offered("agents dead list --js")).toEqual(["--json"]);
});

it("zsh and fish show every command with its description; another shell is refused", async () => {
  for (const shell of ["zsh", "fish"]) {
    const script = await scriptFor(shell);
    for (const { name } of COMMANDS) expect(script).toMatch(new RegExp(`\\b${name}\\b`));
    expect(script).toContain("an agent’s state, now or at any point of its history");
  }
  expect(await cli.run(["completion", "tcsh"])).toMatchObject({ code: 2 });
});

it("every script also completes the package's own name", async () => {
  for (const shell of ["bash", "zsh"])
    expect(await scriptFor(shell)).toMatch(/ _agents agents turnkeep\b/);
  const lines = (await scriptFor("fish")).split("\n");
  const of = (name: string): string[] =>
    lines.flatMap((line) => line.split(`complete -c ${name} `).slice(1));
  expect(of("turnkeep")).toEqual(of("agents"));
  expect(of("turnkeep").length).toBeGreaterThan(COMMANDS.length);
});

it("the list of commands describes arguments as each command's help does", async () => {
  const without = (usage: string) => usage.replace(" [options]", "").replace(" [command]", "");
  for (const { name, takes } of COMMANDS) {
    const { out } = await cli.run([name, "--help"]);
    const usage = /^Usage: agents (.*)$/m.exec(out)?.[1] ?? "";
    expect(without(usage)).toBe(without(`${name} ${takes}`).trim());
  }
});
