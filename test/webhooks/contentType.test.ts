/** The content type, which no provider signs: it changes nothing that is read of a body. */
import { describe, expect, test } from "vitest";
import { body, hmac, sign } from "../../services/webhooks/index.ts";
import { readWhen } from "../../services/webhooks/when.ts";
import { providers, sentBy, tokenProvider } from "./everyProvider.ts";
import { requestOf, SECRET, verdictOf } from "./requests.ts";

const JSON_TYPE = "application/json";
const FORM_TYPE = "application/x-www-form-urlencoded";
const TYPES = [JSON_TYPE, FORM_TYPE, `${FORM_TYPE}; charset=utf-8`, "multipart/form-data; boundary=x", "text/plain", ""]; // prettier-ignore

// Twilio's signature is over the fields of a form, so it depends on the content type.
const independent = [...providers, tokenProvider].filter(({ name }) => name !== "twilio");

describe.each(independent.map((each) => [each.name, each] as const))("%s", (_, provider) => {
  test("finds the same events under any content type", () => {
    const sent = sentBy(provider);
    const verifier = provider.make();
    const expected = verdictOf(verifier, sent);
    expect(expected._tag).toBe("Verified");
    for (const type of TYPES) {
      const headers = { ...sent.headers, "content-type": type };
      const verdict = verdictOf(verifier, { ...sent, headers });
      const contentType = /form/.test(type) ? { contentType: JSON_TYPE } : {};
      expect(verdict, type).toEqual({ ...expected, ...contentType });
    }
  });
});

test("an id in a signed form is found under any content type, and the agent sees a form", () => {
  const form = "id=1&text=a+b";
  const verifier = hmac({ secret: "SECRET", id: { field: "id" } });
  for (const type of TYPES) {
    const headers = { ...sign.hmac(form, SECRET), "content-type": type };
    expect(verdictOf(verifier, { body: form, headers }), type).toEqual({
      _tag: "Verified",
      dedupId: "1",
      ...(type === JSON_TYPE && { contentType: FORM_TYPE }),
    });
  }
});

test("JSON with a form in one of its texts names no agent as a form", () => {
  const payload = encodeURIComponent('{"repository":{"full_name":"victim/site"}}');
  const text = JSON.stringify({ title: `x&payload=${payload}&`, repository: { full_name: "own" } });
  const when = readWhen({ "repository.full_name": "victim/site" }, () => {
    throw new Error("a good filter");
  })!;
  for (const type of TYPES) {
    const request = requestOf({ body: text, headers: { "content-type": type } });
    expect(body("repository.full_name").resolve(request)).toEqual({ _tag: "Entity", name: "own" });
    expect(when(request)).toBe(false);
  }
});

test("of two content types, neither makes JSON a form", () => {
  const headers = { ...sign.hmac("{}", SECRET), "content-type": [JSON_TYPE, FORM_TYPE] };
  expect(verdictOf(hmac({ secret: "SECRET" }), { body: "{}", headers })).toMatchObject({
    contentType: JSON_TYPE,
  });
});

test("a body that is neither JSON nor a form stays under its content type, and has no fields", () => {
  const verifier = hmac({ secret: "SECRET", id: { field: "a" } });
  for (const text of [
    "",
    "a",
    "<a b='=1'/>",
    '{"a":"=1',
    '--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--',
    " a=1",
  ])
    // prettier-ignore
    for (const type of TYPES) {
      const headers = { ...sign.hmac(text, SECRET), "content-type": type };
      expect(verdictOf(verifier, { body: text, headers }), text).toEqual({ _tag: "Verified" });
      expect(body("a").resolve(requestOf({ body: text, headers }))._tag).toBe("Invalid");
    }
});
