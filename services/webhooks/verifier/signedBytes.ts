/**
 * The bytes that a provider signs, from the template of its row: text with placeholders for parts
 * of the request. Used by `verifierOf` and `sign`.
 *
 * `{body}`, `{timestamp}`, `{id}`, `{url}`, `{method}`; `{form}`: Twilio's sorted form fields;
 * `{crc32}`: the body's CRC-32 in decimal; `{webhook}`: the id of the webhook at the provider.
 */
import { crc32 } from "node:zlib";
import { InvalidWebhook } from "../../../core/webhook/WebhookRoute.ts";
import type { Message } from "./Signatures.ts";

/** The values of a template's placeholders. */
export interface SignedParts {
  readonly body: Uint8Array;
  readonly timestamp: string;
  readonly id: string;
  readonly url: string;
  readonly method: string;
  readonly form: string;
  readonly webhook: string;
}

type Placeholder = keyof SignedParts | "crc32";
/** A piece of a parsed template. */
type TemplatePart = { readonly _tag: "Text"; readonly text: string } | Placeholder;

const PLACEHOLDER = /^\{(body|timestamp|id|url|method|form|crc32|webhook)\}$/;

/** Throws `InvalidWebhook` for an unknown placeholder; its message lists those for users. */
export function parseTemplate(template: string): ReadonlyArray<TemplatePart> {
  return template
    .split(/(\{[^{}]*\})/)
    .filter((piece) => piece !== "")
    .map((piece): TemplatePart => {
      const name = PLACEHOLDER.exec(piece)?.[1];
      if (name !== undefined) return name as Placeholder;
      if (/[{}]/.test(piece))
        throw new InvalidWebhook({
          message: `template "${template}": "${piece}" is not one of {body}, {timestamp}, {id}, {url}, {method}`,
        });
      return { _tag: "Text", text: piece };
    });
}

/** The message that is signed, in pieces. */
export const signedBytes = (template: ReadonlyArray<TemplatePart>, parts: SignedParts): Message =>
  template.map((part) => {
    if (part === "body") return parts.body;
    if (part === "crc32") return Buffer.from(String(crc32(parts.body)));
    return Buffer.from(typeof part === "string" ? parts[part] : part.text);
  });

/** A provider's form has dozens of fields, some kilobytes. The bound is for attackers' forms. */
const FORM_BYTES_MAX = 1024 * 1024;
/** For the same reason: the fields are sorted before the sender is verified. */
const FORM_FIELDS_MAX = 1000;
const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * The fields of a form as Twilio signs them: sorted by name, each name followed by its value, with
 * repeated values once and sorted. Undefined for a body that is not a form, or is too large.
 */
export function sortedForm(body: Uint8Array): string | undefined {
  if (body.length > FORM_BYTES_MAX) return undefined;
  const values = new Map<string, Set<string>>();
  let fields = 0;
  try {
    for (const [name, value] of new URLSearchParams(strictUtf8.decode(body))) {
      const of = values.get(name);
      if (of === undefined) values.set(name, new Set([value]));
      else of.add(value);
      if (++fields > FORM_FIELDS_MAX) return undefined;
    }
  } catch {
    // The body is not UTF-8, so no provider signed it as a form.
    return undefined;
  }
  return [...values.keys()]
    .toSorted()
    .map((name) =>
      [...values.get(name)!].toSorted().reduce((text, value) => text + name + value, ""),
    )
    .join("");
}
