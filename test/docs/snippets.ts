/**
 * The TypeScript of README and docs as files that a compiler can read. A block that begins as a
 * module does is a file of its own; another one is put into a class or one of its methods, by how
 * it begins. What pages leave to their reader (a model, a shop's own functions) is declared for all
 * of them.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface Snippet {
  /** Path of the page, relative to the repository. */
  readonly page: string;
  /** Line of the block's fence, from 1. */
  readonly line: number;
  readonly extension: string;
  readonly text: string;
}

export function snippetsOf(root: string): ReadonlyArray<Snippet> {
  const docs = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" });
  // Signatures, written from sources that compile.
  const isGenerated = (path: string): boolean => path.startsWith("reference/api/");
  const pages = docs
    .filter((path) => path.endsWith(".md") && !isGenerated(path))
    .map((path) => `docs/${path}`);
  return ["README.md", ...pages.toSorted()].flatMap((page) => {
    const text = readFileSync(join(root, page), "utf8");
    return [...text.matchAll(/^```(tsx?)\b.*\n([^]*?)^```$/gm)].map((found) => ({
      page,
      line: text.slice(0, found.index).split("\n").length,
      extension: found[1] ?? "ts",
      text: found[2] ?? "",
    }));
  });
}

/** Names that a fragment may use without an import. A block with imports imports all it uses. */
const IMPORTED = `
import type * as agents from "agents";
import type * as email from "agents/email";
import type * as schedule from "agents/schedule";
import type * as testing from "agents/testing";
import type * as vitest from "vitest";
declare global {
  const Agent: typeof agents.Agent;
  const callable: typeof agents.callable;
  const getCurrentAgent: typeof agents.getCurrentAgent;
  const routeAgentRequest: typeof agents.routeAgentRequest;
  const emailRoute: typeof email.emailRoute;
  const scheduleSchema: typeof schedule.scheduleSchema;
  const getSchedulePrompt: typeof schedule.getSchedulePrompt;
  const testAgents: typeof testing.testAgents;
  const expect: typeof vitest.expect;
  type FiberContext = agents.FiberContext;
  type FiberRecoveryContext = agents.FiberRecoveryContext;
}
`;

/** What pages leave to their reader. */
const LEFT_OUT = `
import type { Agent } from "agents";
import type { TestAgents } from "agents/testing";
declare global {
  interface Env { readonly [name: string]: unknown }
  class RepoAgent extends Agent { listEvents(limit: number): unknown[] }
  class SupportAgent extends Agent {}
  class CaseAgent extends Agent {}
  class Desk extends Agent {}
  class OrgAgent extends Agent {}
  class OrderAgent extends Agent<Env, { status: string }> {}
  const [stock, payments, carrier, order]: any[];
  const step: import("agents/workflows").WorkflowStep;
  class ShopAgent extends Agent<Env, { sold: number }> { sell(count: number): number }
  function mayReach(token: string | undefined, className: string, name: string): boolean;
  function tokenOf(request: Request): string | undefined;
  const model: any;
  const text: string;
  const body: string;
  const headers: Record<string, string>;
  const id: string;
  const test: TestAgents;
  const agent: { remind(seconds: number, text: string): Promise<void> };
  const server: { readonly RepoAgent: typeof RepoAgent };
  function generateText(options: object): Promise<{ readonly text: string }>;
  function generateObject<T>(options: { readonly model: unknown; readonly schema: { parse(value: unknown): T }; readonly prompt: string }): Promise<{ readonly object: T }>;
  function stepCountIs(count: number): unknown;
  function ask(topic: string, options: { readonly signal: AbortSignal }): Promise<string>;
  type Question = { readonly id: string; readonly text: string };
  const link: string;
  function askModel(...parts: unknown[]): Promise<any>;
  function charge(item: string, key: string): Promise<number>;
  function sendMail(to: string, subject: string, key: string): Promise<void>;
  function convertFile(url: string): Promise<void>;
  function show(token: unknown): void;
  function userOf(connection: unknown): string;
  function clear(): void;
}
`;

/** As `LEFT_OUT`, where the DOM's types are. */
const LEFT_OUT_DOM = `
declare global {
  const client: import("agents/client").AgentClient;
}
export {};
`;

/** The modules that snippets import beside them. */
const SERVER = `
import { Agent } from "agents";
export class RepoAgent extends Agent<Record<string, unknown>, { total: number }> {}
export class WalletAgent extends Agent {
  async pay(amount: number) { return String(amount); }
}
export class ShopAgent extends Agent<Record<string, unknown>, { sold: number }> {
  sell(count: number): number { return count; }
}
`;

const MODULE = /^(?:\/\/.*\n)*(?:import|export|interface|const app|function)\b/;
const MEMBERS = /^(?:@|override |static |private )|^(?:async )?\w+\([^\n]*\) \{\n/;

/** The class around a fragment, with the members of the reader's that fragments use. */
const around = (members: string): string => `class Here extends Agent<Env, any> {
  tell: ((text: string) => void) | undefined;
  async remind() {}
  async report() {}
  async poll() {}
${members}}
void Here;
export {};
`;

function fileText({ text }: Snippet): string {
  const code = text.replaceAll("[ … ]", "[]").replace(/^ *…\n/gm, "  return new Response();\n");
  if (MODULE.test(code)) return code + "export {};\n";
  return around(MEMBERS.test(code) ? code : `  async here() {\n${code}  }\n`);
}

interface CompilerOptions extends Record<string, unknown> {
  readonly lib: ReadonlyArray<string>;
}

/** As in a new project, with the DOM's types or without. */
export const optionsWith = (isDom: boolean, more: object = {}): CompilerOptions => ({
  target: "es2022",
  module: "nodenext",
  lib: [
    "es2023",
    "esnext.disposable",
    ...(isDom ? ["dom", "dom.iterable", "dom.asynciterable"] : []),
  ],
  types: ["node"],
  jsx: "react-jsx",
  strict: true,
  allowImportingTsExtensions: true,
  noEmit: true,
  ...more,
});

/**
 * Writes the snippets into `folder`: those with imports into `whole/`, the rest into `fragments/`,
 * each with what it may use and a tsconfig.json. `isWanted` leaves some out. Returns the number of
 * snippets.
 */
export function writeSnippets(
  root: string,
  folder: string,
  compilerOptions: CompilerOptions,
  isWanted: (snippet: Snippet) => boolean = () => true,
): number {
  const snippets = snippetsOf(root).filter(isWanted);
  const isDom = compilerOptions.lib.includes("dom");
  for (const kind of ["whole", "fragments"]) {
    mkdirSync(join(folder, kind), { recursive: true });
    writeFileSync(join(folder, kind, "leftOut.d.ts"), LEFT_OUT);
    if (isDom) writeFileSync(join(folder, kind, "leftOutDom.d.ts"), LEFT_OUT_DOM);
    writeFileSync(join(folder, kind, "server.ts"), SERVER);
    writeFileSync(
      join(folder, kind, "tsconfig.json"),
      JSON.stringify({ compilerOptions, include: ["*"] }),
    );
  }
  writeFileSync(join(folder, "fragments/imported.d.ts"), IMPORTED);
  for (const snippet of snippets) {
    const kind = /^import /m.test(snippet.text) ? "whole" : "fragments";
    const name = `${snippet.page.replace(/\.md$/, "").replaceAll("/", "-")}-${snippet.line}.${snippet.extension}`;
    writeFileSync(join(folder, kind, name), fileText(snippet));
  }
  return snippets.length;
}
