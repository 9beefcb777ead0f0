/** Verifiers and entity sources that are declared wrongly, as a module without types may do. */
import { describe, expect, test } from "vitest";
import * as w from "../../services/webhooks/index.ts";

/** The functions as plain JavaScript calls them. */
const js = w as unknown as Readonly<Record<string, (...args: unknown[]) => unknown>>;
const sign = w.sign as unknown as Readonly<Record<string, (...args: unknown[]) => unknown>>;
const secret = "S";

const refusal = (call: () => unknown): string => {
  try {
    call();
    return "nothing was thrown";
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`;
  }
};

const PROVIDERS = Object.keys(w.sign).filter((name) => name in w && name !== "hmac");

describe("a wrong declaration throws InvalidWebhook, which says what to write", () => {
  test.each(PROVIDERS)("%s refuses an option that it does not know, and none at all", (name) => {
    expect(refusal(() => js[name]!({ secret, replayGaurd: true }))).toMatch(
      /^InvalidWebhook: [\w-]+: unknown option "(replayGaurd|secret)"; the options are .*replayGuard/,
    );
    expect(refusal(() => js[name]!())).toMatch(
      /^InvalidWebhook: [\w-]+: the options must be an object with .*, not undefined$/,
    );
    expect(refusal(() => js[name]!({}))).toMatch(
      /^InvalidWebhook: [\w-]+\(\{ \w+ \}\): it is missing: write the name of the environment/,
    );
  });

  test.each([
    ["stripe", { secret, toleranceSeconds: "5" }, 'stripe({ toleranceSeconds: "5" }): use 1 to'],
    ["github", { secret, replayGuard: "yes" }, "github({ replayGuard }): use true or false"],
    ["hubspot", { secret, version: "v4" }, 'hubspot({ version: "v4" }): it is "v1", "v2" or "v3"'],
    ["hmac", { secret, heder: "x" }, 'hmac: unknown option "heder"'],
    ["hmac", { secret, algorithm: "md5" }, 'algorithm is "md5": use "sha256" or "sha1" or'],
    ["hmac", { secret, encoding: "HEX" }, 'encoding is "HEX": use "hex" or "base64"'],
    ["hmac", { secret, secretFormat: "b" }, 'secretFormat is "b": use "plain" or "whsec"'],
    ["hmac", { secret, header: "x y" }, 'header: "x y" is not a header\'s name'],
    ["hmac", { secret, header: 5 }, "header: 5 is not a header's name"],
    ["hmac", { secret, prefix: 5 }, "prefix is 5: use a text"],
    ["hmac", { secret, separator: "" }, 'separator is "": leave it out'],
    ["hmac", { secret, id: "x-id" }, 'id: use { header: "x-id" } or { field: "a.b" }'],
    ["hmac", { secret, id: { heading: "x" } }, 'id: use { header: "x-id" } or { field'],
    ["hmac", { secret, event: { header: "a", field: "b" } }, "event: use { header"],
    [
      "hmac",
      { secret, template: "{timestamp}{body}", timestamp: "x-t" },
      "timestamp: use { header",
    ],
    [
      "hmac",
      { secret, template: "{timestamp}{body}", timestamp: { header: "x-t", unit: "sec" } },
      'timestamp.unit is "sec": use "s" or "ms" or "iso"',
    ],
    ["unsigned", { secret }, 'unsigned: unknown option "secret"'],
    ["unsigned", { id: { header: "x y" } }, 'unsigned(…): id: "x y" is not a header\'s name'],
  ])("%s(%o)", (name, options, message) => {
    expect(refusal(() => js[name]!(options))).toMatch(/^InvalidWebhook: /);
    expect(refusal(() => js[name]!(options))).toContain(message);
  });

  test.each([
    [
      "path",
      ["name", { trusted: true }],
      'path("name"): use a transform like escapedSlug, and opt',
    ],
    [
      "body",
      ["a", "slug"],
      'body("a"): use a transform like escapedSlug, and options: the options',
    ],
    ["body", [undefined], "use a field's path"],
    ["header", [5], "not a header name"],
    ["webhook", [5, {}], 'a path starts with "/"'],
    ["webhook", ["/w"], "the options must be an object with agent, verify, entity"],
  ])("%s(…%j)", (name, args, message) => {
    expect(refusal(() => js[name]!(...args))).toMatch(/^InvalidWebhook: /);
    expect(refusal(() => js[name]!(...args))).toContain(message);
  });

  test("a signer without its secret says what its arguments are", () => {
    const message = "InvalidWebhook: sign.github: its arguments are the body, the secret itself";
    expect(refusal(() => sign["github"]!({ body: "x", secret }))).toContain(message);
    expect(refusal(() => sign["github"]!("x", { secret }))).toContain(message);
  });
});
