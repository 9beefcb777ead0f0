/**
 * A header named `__proto__` is a header like any other wherever headers become an object by name:
 * of a webhook that is stored, of one that is sent, and of a mail. Assigned to a plain object, it
 * would be lost.
 */
import { expect, test } from "vitest";
import { addHeader, emptyHeaders } from "../../core/http/requestHead.ts";
import { mergeHeaders } from "../../core/mail/composeMail.ts";
import { headersOf, makeWebhook } from "../../core/outgoing/OutgoingWebhook.ts";
import { REDACTION } from "../../core/redaction/Redaction.ts";
import { nodeOutgoing } from "../../services/node/NodeOutgoing.ts";
import { headerRecord } from "../../services/gateway/requests.ts";

const ODD = "__proto__";

test("a stored webhook has its header __proto__", () => {
  const headers = emptyHeaders();
  addHeader(headers, ODD, "1");
  addHeader(headers, ODD, "2");
  const request = { method: "POST", target: "/", headers, remoteAddress: "", secure: false };
  expect(JSON.stringify(headerRecord(request, REDACTION))).toBe('{"__proto__":"1, 2"}');
});

test("a sent webhook has its header __proto__", () => {
  const call = { id: "i", url: "http://a.test/", body: 1, env: {}, allowPrivate: true, nowMs: 0 };
  const made = makeWebhook({ ...call, options: { headers: [[ODD, "1"]] } }, nodeOutgoing);
  expect(Object.entries(headersOf(made, {}, 0, nodeOutgoing))).toContainEqual([ODD, "1"]);
});

test("merged headers of a mail have one named __proto__, the last one given", () => {
  const odd = (value: string) => Object.fromEntries([[ODD.toUpperCase(), value]]);
  const merged = mergeHeaders(odd("1"), Object.fromEntries([[ODD, "2"]]), { "X-A": "3" });
  expect(Object.entries(merged)).toEqual([
    [ODD, "2"],
    ["X-A", "3"],
  ]);
});
