/** An app of the reference under its own `tsconfig.json` compiles. Run by `npm run check`. */
import { expectTypeOf, it } from "vitest";
import { Agent, getAgentByName, type AgentStub } from "agents";
import {
  routeAgentEmail,
  type EmailHeader,
  type EmailResolverResult,
  type EmailSendBinding,
  type SecureReplyResolverOptions,
  type SendEmailOptions,
  type SignatureFailureReason,
} from "agents/email";

interface PlatformId {
  readonly name?: string;
  equals(other: PlatformId): boolean;
}
interface PlatformStub<A> {
  readonly id: PlatformId;
  readonly of: A;
}
declare abstract class DurableObjectNamespace<A> {
  newUniqueId(options?: { jurisdiction?: string }): PlatformId;
  idFromName(name: string): PlatformId;
  get(id: PlatformId, options?: { locationHint?: string }): PlatformStub<A>;
  getByName(name: string): PlatformStub<A>;
}
interface EmailMessage {
  readonly from: string;
  readonly to: string;
}
interface EmailBuilder {
  from: string | { email: string; name: string };
  to: string | string[];
  subject: string;
  text?: string;
}
interface SendEmail {
  send(message: EmailMessage): Promise<{ messageId: string }>;
  send(builder: EmailBuilder): Promise<{ messageId: string }>;
}
interface ForwardableEmailMessage extends EmailMessage {
  readonly raw: ReadableStream<Uint8Array>;
  readonly headers: Headers;
  readonly rawSize: number;
  setReject(reason: string): void;
  forward(recipient: string, headers?: Headers): Promise<{ messageId: string }>;
  reply(message: EmailMessage): Promise<{ messageId: string }>;
  reply(builder: Partial<EmailBuilder>): Promise<{ messageId: string }>;
}
interface Env {
  readonly Mailbox: DurableObjectNamespace<Mailbox>;
  readonly EMAIL: SendEmail;
}

interface DurableObjectState {
  readonly id: PlatformId;
  readonly storage: { readonly sql: object; deleteAll(): Promise<void> };
  waitUntil(promise: Promise<unknown>): void;
  abort(reason?: string): never;
}

class Mailbox extends Agent<Env> {
  readonly sender: SendEmail;
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.sender = env.EMAIL;
  }
  async write(): Promise<void> {
    await this.sendEmail({ binding: this.sender, from: "a@x.com", to: "b@x.com", subject: "Hi", text: "x" }); // prettier-ignore
  }
  override onWorkflowProgress(name: string, id: string, progress: { percent: number }): void {
    void [name.length, id.length, progress.percent];
  }
  override async onWorkflowComplete(_name: string, _id: string, _result?: unknown) {}
  override onWorkflowError(_name: string, _id: string, error: string): void {
    void error.length;
  }
  // @ts-expect-error a hook has no number
  override onWorkflowEvent(_name: number): void {}
}

it("a binding of the platform's type returns stubs of its own type, or of the agent's", () => {
  const binding = undefined as unknown as Env["Mailbox"];
  const stub = () => getAgentByName(binding, "ada");
  expectTypeOf(stub).returns.resolves.toEqualTypeOf<PlatformStub<Mailbox>>();
  const own = () => getAgentByName<Env, Mailbox>(binding, "ada");
  expectTypeOf(own).returns.resolves.toEqualTypeOf<AgentStub<Mailbox>>();
  expectTypeOf<Mailbox>().toExtend<{ __DURABLE_OBJECT_BRAND: never }>();
  // @ts-expect-error no binding
  void (() => getAgentByName({ get: () => 1 }, "ada"));
});

it("a message of the platform's type is routed", () => {
  const email = (message: ForwardableEmailMessage, env: Env) =>
    routeAgentEmail(message, env, { resolver: async () => null });
  expectTypeOf(email).returns.resolves.toBeVoid();
  expectTypeOf<Mailbox["write"]>().returns.resolves.toBeVoid();
});

it("the reference's names of mail types mean the same here", () => {
  expectTypeOf<SendEmail>().toExtend<EmailSendBinding>();
  expectTypeOf<EmailHeader>().toEqualTypeOf<{ readonly key: string; readonly value: string }>();
  expectTypeOf<null>().toExtend<EmailResolverResult>();
  expectTypeOf<{ maxAge: number }>().toExtend<SecureReplyResolverOptions>();
  expectTypeOf<"expired">().toExtend<SignatureFailureReason>();
  expectTypeOf<SendEmailOptions["subject"]>().toBeString();
});
