/**
 * Links by which one person answers one approval: `/agents/~approval?token=…`. The token names the
 * agent, the approval, the person and an expiry time, under an HMAC of `APPROVAL_SECRET`. Agents
 * make links; gateways check them before an agent is asked anything.
 *
 * 1. The signature covers the installation's namespace: another installation with the same
 *    secret accepts no link of this one.
 * 2. A link belongs to one approval, whose id is random. It has no effect once that is decided, and
 *    none on a question that is asked again.
 * 3. The token is a query parameter whose name logs hide (`core/redaction/Redaction`).
 */
import type { AgentId } from "../../schemas/Address.ts";
import { fromBase64Url, toBase64Url } from "../../schemas/base64.ts";
import { checkOptions } from "../errors/checkOptions.ts";
import type { OutgoingShape } from "../outgoing/Outgoing.ts";
import { durationMs } from "../time/durationMs.ts";
import type { ApprovalLinkOptions } from "./Approval.ts";
import { checkBy } from "./checkAnswer.ts";

const OPTIONS: ReadonlySet<string> = new Set<keyof ApprovalLinkOptions>([
  "origin", "for", "timeout",
]); // prettier-ignore
/** No class can have this name, so the path reaches no agent. */
export const APPROVAL_PATH = "/agents/~approval";
/** The environment variable of gateways and hosts that holds the secret. */
export const APPROVAL_SECRET = "APPROVAL_SECRET";
/** A guessed secret can sign every link. Half of a SHA-256, in hex digits. */
const SECRET_CHARS_MIN = 32;
/** Name and class, a person and an id, as base64. A longer token is refused unread. */
const TOKEN_CHARS_MAX = 4096;
/** Version of what is signed; a reader of an unknown one refuses. */
const VERSION = 1;

/** What a link names. */
export interface ApprovalToken {
  readonly className: string;
  readonly agent: string;
  /** The approval's id. */
  readonly id: string;
  readonly by: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** The secret of an environment. `fault`: it is missing or too short, and what to do. */
export function approvalSecret(env: unknown): { readonly secret?: string; readonly fault: string } {
  const secret = (env as Readonly<Record<string, unknown>> | undefined)?.[APPROVAL_SECRET];
  if (typeof secret !== "string" || secret === "")
    return {
      fault: `${APPROVAL_SECRET} is not set: set it to the same random text for hosts and gateways`,
    };
  if (secret.length >= SECRET_CHARS_MIN) return { secret, fault: "" };
  return { fault: `${APPROVAL_SECRET} is shorter than ${SECRET_CHARS_MIN} characters` };
}

/** Throws `TypeError` for invalid options, and without a secret. */
export function makeApprovalLink({
  agent,
  id,
  expiresAt,
  nowMs,
  options,
  env,
  installation,
  hmacSha256,
}: {
  readonly agent: AgentId;
  readonly id: string;
  readonly expiresAt: number;
  readonly nowMs: number;
  readonly options: ApprovalLinkOptions;
  readonly env: unknown;
  readonly installation: string;
  readonly hmacSha256: OutgoingShape["hmacSha256"];
}): string {
  checkOptions("approvalLink(name, …)", options, OPTIONS);
  const { origin, for: by, timeout } = options;
  checkBy(by, "for of an approval's link");
  if (!URL.canParse(origin) || !/^https?:$/.test(new URL(origin).protocol))
    throw new TypeError(
      `origin of an approval's link must be the gateways' origin, as in "https://agents.example.com", not ${JSON.stringify(origin)}`,
    );
  const { secret, fault } = approvalSecret(env);
  if (secret === undefined) throw new TypeError(`approvalLink: ${fault}`);
  const ends =
    timeout === undefined
      ? expiresAt
      : nowMs + durationMs(timeout, "timeout of an approval's link");
  const given = [VERSION, agent.class, agent.name, id, by, Math.min(ends, expiresAt)];
  const claims = toBase64Url(encoder.encode(JSON.stringify(given)));
  const mac = hmacSha256(encoder.encode(secret), signed(claims, installation));
  return `${new URL(APPROVAL_PATH, origin).href}?token=${claims}.${toBase64Url(mac)}`;
}

/** Undefined: not of this installation, or changed. The caller checks whether it has expired. */
export function readToken(
  token: string,
  {
    secret,
    installation,
    hmacSha256,
  }: Pick<OutgoingShape, "hmacSha256"> & { readonly secret: string; readonly installation: string },
): ApprovalToken | undefined {
  const [claims = "", given = "", ...more] = token.split(".");
  if (token.length > TOKEN_CHARS_MAX || more.length > 0) return undefined;
  const mac = hmacSha256(encoder.encode(secret), signed(claims, installation));
  if (!isEqual(mac, fromBase64Url(given))) return undefined;
  const [version, className, agent, id, by, expiresAt] = JSON.parse(
    new TextDecoder().decode(fromBase64Url(claims)),
  ) as [number, string, string, string, string, number];
  return version === VERSION ? { className, agent, id, by, expiresAt } : undefined;
}

/** Compares every byte, so that the time it takes does not reveal where they differ. */
function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  let differs = a.length ^ b.length;
  for (let at = 0; at < a.length; at++) differs |= a[at]! ^ (b[at] ?? 0);
  return differs === 0;
}

const encoder = new TextEncoder();

/** Rule 1. The first line distinguishes it from anything else that the secret may sign. */
const signed = (claims: string, installation: string) =>
  encoder.encode(`approval link\n${installation}\n${claims}`);
