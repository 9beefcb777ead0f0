/**
 * Serves the links of approvals (`core/approval/approvalLink`): shows a page with the question, and
 * passes the answer to the agent. `Gateway` calls it for `APPROVAL_PATH` before the module's
 * routes.
 *
 * 1. Only a token that this installation signed reaches an agent. All others are refused in the
 *    same way, whatever is wrong with them.
 * 2. Only POST decides. Link previews, mail scanners and prefetching browsers send GET or HEAD.
 * 3. The agent decides once (`Approvals`, rule 1), so a call may be repeated on another host.
 * 4. The page shows untrusted text, so it runs no script, can't be framed, is not cached, and sends
 *    its address to no other site.
 */
import type { Approval, ApprovalDecision } from "../../core/approval/Approval.ts";
import {
  APPROVAL_PATH,
  approvalSecret,
  readToken,
  type ApprovalToken,
} from "../../core/approval/approvalLink.ts";
import { AgentUnreachable } from "../../core/call/AgentUnreachable.ts";
import type { Exchange, HttpRequest, HttpResponse } from "../../core/http/HttpServer.ts";
import { pathOf } from "../../core/http/requestHead.ts";
import { agentId } from "../../schemas/Address.ts";
import { answerPage, questionPage, textPage, type Shown } from "./approvalPage.ts";
import type { GatewayServices } from "./GatewayServices.ts";

/** Enough for an answer and its reason, percent-encoded. */
export const APPROVAL_BODY_BYTES_MAX = 32 * 1024;
/** The content type of the page's form. */
const FORM = "application/x-www-form-urlencoded";

type ApprovalServices = Pick<
  GatewayServices,
  "calls" | "config" | "hmacSha256" | "log" | "module" | "time"
>;

/** Called for each request; a request for anything else costs only the first comparison. */
export const isApprovalLink = ({ target }: HttpRequest): boolean =>
  target.startsWith(APPROVAL_PATH) && pathOf(target) === APPROVAL_PATH;

/** Never rejects. */
export async function answerApproval(
  services: ApprovalServices,
  { request, body }: Pick<Exchange, "request" | "body">,
): Promise<HttpResponse> {
  const { method } = request;
  if (method !== "GET" && method !== "HEAD" && method !== "POST") return NOT_ALLOWED;
  const { hmacSha256 } = services;
  const { secret, fault } = approvalSecret(services.module().env);
  if (secret === undefined || hmacSha256 === undefined) {
    services.log.warn("the link of an approval can't be checked", { why: fault });
    return textPage(503, "Approvals can't be answered here: the gateway has no secret for them.");
  }
  const given = new URL(request.target, "http://gateway").searchParams.get("token") ?? "";
  const installation = services.config.subjects.namespace;
  const token = readToken(given, { secret, installation, hmacSha256 });
  // Rule 1.
  if (token === undefined) return textPage(403, "This link is not valid.");
  if (token.expiresAt <= services.time.nowMs()) return textPage(410, "This link has expired.");
  try {
    // Rule 2.
    return method === "POST"
      ? await decide(services, token, request, body)
      : await show(services, token);
  } catch (error) {
    const isAway = error instanceof AgentUnreachable;
    services.log.warn("an approval could not be answered", {
      class: token.className,
      name: token.agent,
      error: String(error),
    });
    return isAway
      ? textPage(503, "The agent can't be reached at the moment. Open the link again later.")
      : textPage(500, "This approval could not be answered. Open the link again.");
  }
}

const NOT_ALLOWED: HttpResponse = {
  status: 405,
  headers: [["allow", "GET, HEAD, POST"]],
  body: "",
};

async function show(services: ApprovalServices, token: ApprovalToken): Promise<HttpResponse> {
  const approval = await read(services, token);
  if (approval === undefined) return GONE;
  const shown = shownOf(token, approval);
  return approval.status === "waiting" ? questionPage(shown) : answerPage(200, shown);
}

async function decide(
  services: ApprovalServices,
  token: ApprovalToken,
  { headers }: HttpRequest,
  body: Uint8Array,
): Promise<HttpResponse> {
  const type = headers["content-type"]?.[0] ?? "";
  if (type.split(";")[0]!.trim().toLowerCase() !== FORM)
    return textPage(415, "An answer must be sent by the page of the link.");
  const form = new URLSearchParams(new TextDecoder().decode(body));
  const answer = form.get("answer");
  if (answer !== "approve" && answer !== "reject")
    return textPage(400, "The answer must be approve or reject.");
  const reason = form.get("reason")?.trim() ?? "";
  const decision: ApprovalDecision = {
    approved: answer === "approve",
    by: token.by,
    ...(reason === "" ? {} : { reason }),
  };
  const reply = await call(services, token, "decideApproval", [token.id, decision]);
  if (reply.kind === "result") return answerPage(200, shownOf(token, reply.value as Approval));
  const refused = reply.kind === "error" ? reply.name : reply.kind;
  const approval = await read(services, token);
  if (approval === undefined) return GONE;
  if (refused === "RangeError") return textPage(400, "The reason is too long.");
  if (refused === "ApprovalClosed") return answerPage(409, shownOf(token, approval));
  throw new Error(refused);
}

const GONE = textPage(410, "This approval is no longer needed.");

async function read(
  services: ApprovalServices,
  token: ApprovalToken,
): Promise<Approval | undefined> {
  const reply = await call(services, token, "getApprovals", [{ id: token.id }]);
  if (reply.kind !== "result") throw new Error(`unexpected ${reply.kind} reply`);
  return (reply.value as ReadonlyArray<Approval>)[0];
}

async function call(
  { calls, config }: ApprovalServices,
  { className, agent }: ApprovalToken,
  method: string,
  args: ReadonlyArray<unknown>,
) {
  const { reply } = await calls.call(
    agentId(className, agent),
    { kind: "rpc", method, args },
    { deadlineMs: config.requestDeadlineMs, repeatable: true }, // rule 3
  );
  return reply;
}

const shownOf = ({ className, agent, by }: ApprovalToken, approval: Approval): Shown => ({
  approval,
  asker: `${className} ${agent}`,
  reader: by,
});
