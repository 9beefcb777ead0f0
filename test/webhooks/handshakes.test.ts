/** Requests by which providers test an endpoint, and the answers that they expect. */
import { createHmac } from "node:crypto";
import { describe, expect, test } from "vitest";
import { answerOfVerdict } from "../../core/webhook/answers.ts";
import { allowsMethod } from "../../core/webhook/WebhookRoute.ts";
import { constant, intercom, meta, sign, webhook, zoom } from "../../services/webhooks/index.ts";
import { providers, sentBy } from "./everyProvider.ts";
import { NOW_MS, OTHER, SECRET, verdictOf } from "./requests.ts";

describe("Discord", () => {
  const provider = providers.find(({ name }) => name === "discord")!;
  const verdictOn = (body: string) => verdictOf(provider.make(), sentBy(provider, { body }));

  test("sends a ping of webhook events, which is answered 204 without a body", () => {
    expect(verdictOn('{"version":1,"application_id":"1","type":0}')).toEqual({
      _tag: "Handshake",
      answer: { status: 204, headers: {}, body: "" },
    });
  });

  test("sends a ping of interactions, which is answered in kind", () => {
    const verdict = verdictOn('{"id":"1","application_id":"1","token":"t","type":1,"version":1}');
    expect(answerOfVerdict(verdict)).toMatchObject({
      status: 200,
      headers: { "content-type": "application/json" },
      body: '{"type":1}',
    });
  });

  test("sends events with the type of an interactions ping, and interactions, which are no handshakes", () => {
    const event = '{"version":1,"type":1,"event":{"type":"ENTITLEMENT_CREATE","timestamp":"t"}}';
    expect(verdictOn(event)).toMatchObject({
      _tag: "Verified",
      eventType: "ENTITLEMENT_CREATE",
      dedupId: expect.stringMatching(/^sha256:/),
    });
    expect(verdictOn('{"id":"9","type":2}')).toMatchObject({ _tag: "Verified", dedupId: "9" });
  });

  test("sends wrong signatures on purpose, which are answered 401, ping or not", () => {
    const sent = sentBy(provider, { body: '{"type":0}' });
    const forged = {
      ...sent.headers,
      "x-signature-ed25519": sent.headers["x-signature-ed25519"]!.replace(/^../, (byte) =>
        byte === "00" ? "01" : "00",
      ),
    };
    for (const headers of [forged, {}])
      expect(answerOfVerdict(verdictOf(provider.make(), { ...sent, headers }))?.status).toBe(401);
  });
});

describe("Zoom's URL validation", () => {
  const body =
    '{"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event":"endpoint.url_validation","event_ts":1}';
  const verifier = zoom({ secret: ["SECRET", "OTHER"] });

  test("is answered with its token, and the token signed with the request's secret", () => {
    for (const secret of [SECRET, OTHER]) {
      const headers = sign.zoom(body, secret, { nowMs: NOW_MS });
      const verdict = verdictOf(verifier, { body, headers });
      expect(JSON.parse(answerOfVerdict(verdict)!.body)).toEqual({
        plainToken: "qgg8vlvZRS6UYooatFL8Aw",
        encryptedToken: createHmac("sha256", secret).update("qgg8vlvZRS6UYooatFL8Aw").digest("hex"),
      });
    }
  });

  test("is refused unsigned, and an event is not a handshake", () => {
    expect(verdictOf(verifier, { body })._tag).toBe("Rejected");
    const event = body.replace("endpoint.url_validation", "meeting.ended");
    const headers = sign.zoom(event, SECRET, { nowMs: NOW_MS });
    expect(verdictOf(verifier, { body: event, headers })).toMatchObject({
      _tag: "Verified",
      eventType: "meeting.ended",
    });
  });
});

describe("Meta's subscription", () => {
  const verifier = meta({ secret: "SECRET", verifyToken: "OTHER" });
  const get = (query: Record<string, string> | string, env?: Record<string, string>) =>
    verdictOf(verifier, {
      method: "GET",
      body: "",
      url: `https://example.test/w?${typeof query === "string" ? query : new URLSearchParams(query).toString()}`,
      ...(env !== undefined && { env }),
    });
  const right = {
    "hub.mode": "subscribe",
    "hub.challenge": "1158201444",
    "hub.verify_token": OTHER,
  };

  test("returns its challenge if it has our token", () => {
    expect(answerOfVerdict(get(right))).toMatchObject({
      status: 200,
      headers: { "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff" },
      body: "1158201444",
    });
  });

  test("is 401 with another token, the app's secret, two tokens, another mode, or a challenge with markup", () => {
    const twice = `${new URLSearchParams(right).toString()}&hub.verify_token=x`;
    for (const wrong of [
      "",
      { ...right, "hub.verify_token": SECRET },
      { ...right, "hub.verify_token": "" },
      { ...right, "hub.mode": "unsubscribe" },
      { ...right, "hub.challenge": "<script>" },
      { ...right, "hub.challenge": "" },
      `hub.mode=subscribe&hub.verify_token=${encodeURIComponent(OTHER)}&hub.challenge=1?23`,
      twice,
    ])
      expect(answerOfVerdict(get(wrong))?.status, JSON.stringify(wrong)).toBe(401);
  });

  test("is the operator's fault without a configured token", () => {
    expect(get(right, { SECRET })).toMatchObject({
      _tag: "Misconfigured",
      message: expect.stringContaining("OTHER is not set"),
    });
  });

  test("is the only request that may use GET", () => {
    const route = webhook("/w", { agent: "A", verify: verifier, entity: constant("a") });
    expect(["GET", "POST", "PUT", "HEAD"].map((method) => allowsMethod(route, method))).toEqual([
      true,
      true,
      false,
      false,
    ]);
    const body = '{"object":"page"}';
    const signed = { body, method: "GET", headers: sign.meta(body, SECRET) };
    expect(verdictOf(verifier, signed)._tag).toBe("Rejected");
  });
});

describe("Intercom's tests", () => {
  const verifier = intercom({ secret: "SECRET" });

  test("are answered 200 for a signed ping and a bare HEAD, not for an unsigned ping", () => {
    const body = '{"type":"notification_event","topic":"ping","id":"n"}';
    const headers = sign.intercom(body, SECRET);
    expect(answerOfVerdict(verdictOf(verifier, { body, headers }))?.status).toBe(200);
    expect(answerOfVerdict(verdictOf(verifier, { body }))?.status).toBe(401);
    const head = verdictOf(verifier, { method: "HEAD", body: "" });
    expect(answerOfVerdict(head)).toMatchObject({ status: 200, body: "" });
  });
});
