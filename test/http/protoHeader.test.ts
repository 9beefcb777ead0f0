/** A header named `__proto__` is a header like any other, of a stored webhook and of a mail. */
import { expect, test } from "vitest";
import { addHeader, emptyHeaders } from "../../core/http/requestHead.ts";
import { makeRequest } from "../../core/input/runWebhook.ts";
import { mergeHeaders } from "../../core/mail/composeMail.ts";
import { REDACTION } from "../../core/redaction/Redaction.ts";
import { headerRecord } from "../../services/gateway/requests.ts";

const ODD = "__proto__";

test("a header named __proto__ is kept in a stored webhook and in the request made from it", async () => {
  const headers = emptyHeaders();
  addHeader(headers, ODD, "1");
  addHeader(headers, ODD, "2");
  const request = { method: "POST", target: "/", headers, remoteAddress: "", secure: false };
  const stored = JSON.stringify(headerRecord(request, REDACTION));
  expect(stored).toBe('{"__proto__":"1, 2"}');

  const read = { headers: JSON.parse(stored) as Record<string, string>, body: new Uint8Array(0) };
  for (const method of ["POST", "PROPFIND"]) {
    const made = makeRequest(method, "http://agent/", read);
    expect([made.headers.get(ODD), [...made.headers]], method).toEqual(["1, 2", [[ODD, "1, 2"]]]);
  }
});

test("merged headers of a mail keep the last one named __proto__", () => {
  const odd = (value: string) => Object.fromEntries([[ODD.toUpperCase(), value]]);
  const merged = mergeHeaders(odd("1"), Object.fromEntries([[ODD, "2"]]), { "X-A": "3" });
  expect(Object.entries(merged)).toEqual([
    [ODD, "2"],
    ["X-A", "3"],
  ]);
});
