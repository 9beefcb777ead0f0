/**
 * `agents/email`: routing of mail, signed headers, and parsing (`protocol.md` §8). A module handles
 * mail with `email(message, env)` or `email: [emailRoute(…)]`; agents send it (`replyToEmail`,
 * `sendEmail`).
 */
export {
  routeAgentEmail,
  type BuiltEmail,
  type EmailRouteOptions,
} from "../../core/namespace/routeAgentEmail.ts";
export {
  isAutoReplyEmail,
  type HeaderEntry,
  type HeaderEntry as EmailHeader,
} from "../../core/mail/autoReply.ts";
export {
  SIGNATURE_AGE_SECONDS_DEFAULT as DEFAULT_MAX_AGE_SECONDS,
  type InvalidSignature,
  type InvalidSignature as SignatureFailureReason,
} from "../../core/mail/agentSignature.ts";
export type { AgentEmail, RawEmail } from "../../core/mail/AgentEmail.ts";
export type { EmailAddress, EmailContent } from "../../core/mail/composeMail.ts";
export type { ReplyOptions } from "../../core/mail/composeReply.ts";
export {
  EmailBinding,
  EmailFailed,
  EmailRefused,
  type SentEmail,
} from "../../core/mail/EmailBinding.ts";
export {
  createAddressBasedEmailResolver,
  createCatchAllEmailResolver,
  createHeaderBasedEmailResolver,
  type EmailResolver,
  type EmailResolverResult,
  type EmailTarget,
} from "../../core/mail/EmailResolver.ts";
export {
  emailRoute,
  InvalidEmailRoute,
  type EmailEntry,
  type EmailRoute,
  type EmailRouteSettings,
} from "../../core/mail/EmailRoute.ts";
export type {
  SendEmailOptions,
  SendsEmail as EmailSendBinding,
} from "../../core/mail/SendEmailOptions.ts";
export { MailNotStored } from "../../core/mail/mailDrop.ts";
export {
  createSecureReplyEmailResolver,
  signAgentHeaders,
  type SecureReplyOptions,
  type SecureReplyOptions as SecureReplyResolverOptions,
} from "./secureReply.ts";
export { parseEmail } from "./parseEmail.ts";
