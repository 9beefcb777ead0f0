/**
 * Resolves what people type (`repo-agent octo-demo`) to an agent that has a journal. A class may be
 * given by name or in kebab case, as in URLs. Kebab case has no unique inverse, so that it is
 * matched against the existing classes.
 */
import { nearest } from "../../../core/errors/nearest.ts";
import type { JournalShape } from "../../../core/journal/Journal.ts";
import {
  agentId,
  camelCaseToKebabCase,
  InvalidAddress,
  type AgentId,
} from "../../../schemas/Address.ts";
import { notFound, usage } from "../terminal/CliError.ts";

/** Throws `CliError` if the agent does not exist. */
export async function findAgent(
  journal: JournalShape,
  className: string,
  name: string,
): Promise<AgentId> {
  for (const candidate of await classCandidates(journal, className, name)) {
    const id = address(candidate, name);
    if ((await journal.last(id)) !== undefined) return id;
  }
  const stored = await findClass(journal, className);
  const meant = stored === undefined ? await nearestClass(journal, className) : undefined;
  const hint =
    meant === undefined
      ? `nothing has been stored for it yet. "agents list" lists the agents that exist.`
      : `no agent of that class exists. Did you mean ${meant}?`;
  throw notFound(`There is no agent ${className} "${name}": ${hint}`);
}

/** The class that the name of a class without agents most likely meant, or undefined. */
async function nearestClass(journal: JournalShape, className: string): Promise<string | undefined> {
  const classes = new Set<string>();
  for await (const { id } of journal.list()) classes.add(id.class);
  return nearest(className, classes);
}

/** Returns the class as stored, or undefined if it has no agents. */
export async function findClass(
  journal: JournalShape,
  className: string,
): Promise<string | undefined> {
  const guessed = await guessClass(journal, className);
  if (guessed !== undefined) return guessed;
  for await (const { id } of journal.list())
    if (camelCaseToKebabCase(id.class) === className) return id.class;
  return undefined;
}

/**
 * As `findClass`, for an exact name or one in kebab case whose words are capitalised in the class's
 * name. Does not list all agents.
 */
export async function guessClass(
  journal: Pick<JournalShape, "list">,
  className: string,
): Promise<string | undefined> {
  for (const candidate of new Set([className, pascalCase(className)])) {
    if (!isClassName(candidate)) continue;
    for await (const _ of journal.list(candidate)) return candidate;
  }
  return undefined;
}

/** The class as stored, or the name that the text stands for without agents. Throws `CliError`. */
export async function resolveClass(journal: JournalShape, className: string): Promise<string> {
  return (await findClass(journal, className)) ?? meantClass(className);
}

/** The class that the text names without agents. Throws `CliError`. */
function meantClass(className: string): string {
  const meant = pascalCase(className);
  if (isClassName(meant)) return meant;
  throw usage(`"${className}" is not the name of an agent class. Examples: RepoAgent, repo-agent.`);
}

/**
 * As `resolveClass`, for commands that need agents of the class. Throws `CliError` also if there
 * are none and another class has a similar name.
 */
export async function existingClass(journal: JournalShape, className: string): Promise<string> {
  const stored = await findClass(journal, className);
  if (stored !== undefined) return stored;
  const meant = await nearestClass(journal, className);
  if (meant !== undefined)
    throw notFound(`There are no agents of class ${className}. Did you mean ${meant}?`);
  return meantClass(className);
}

/** Cheap guesses come first. All classes are listed only when the guesses fail. */
async function classCandidates(
  journal: JournalShape,
  className: string,
  name: string,
): Promise<ReadonlyArray<string>> {
  const guesses = [...new Set([className, pascalCase(className)])].filter(isClassName);
  for (const guess of guesses)
    if ((await journal.last(address(guess, name))) !== undefined) return [guess];
  const found = await findClass(journal, className);
  return found === undefined ? [] : [found];
}

const isClassName = (text: string): boolean => /^[A-Za-z_$][\w$]*$/.test(text);

const pascalCase = (kebab: string): string =>
  kebab
    .split("-")
    .map((word) => word.slice(0, 1).toUpperCase() + word.slice(1))
    .join("");

/** Throws `CliError` for a name that is not valid. */
export function address(className: string, name: string): AgentId {
  try {
    return agentId(className, name);
  } catch (error) {
    if (error instanceof InvalidAddress) throw usage(error.message);
    throw error;
  }
}
