/** PayPal: two real deliveries, the certificate's ways in, and what strangers make us fetch. */
import { createPublicKey } from "node:crypto";
import { crc32 } from "node:zlib";
import { describe, expect, test } from "vitest";
import { paypal, sign, type PaypalOptions } from "../../services/webhooks/index.ts";
import { makeCertificate } from "./certificate.ts";
import { rsa } from "./everyProvider.ts";
import { NOW_MS, requestOf, type Sent } from "./requests.ts";

const LIVE = "https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-1d93a270";
const WEBHOOK_ID = "8PT597110X687430LKGECATA";
const BODY = '{"id":"WH-1","event_type":"PAYMENT.SALE.COMPLETED","n":1}';
const KEY = rsa.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
const DAY_MS = 24 * 3600 * 1000;
const valid = { fromMs: NOW_MS - DAY_MS, toMs: NOW_MS + DAY_MS };

describe("PayPal's own deliveries", () => {
  /**
   * The modulus of the sandbox's certificate CERT-360caa42-fca2a594-a5cafa77, computed from both
   * signatures: a number that fits both is their key, so the recipe of what is signed is PayPal's.
   */
  const modulus =
    "yF4MCY9RPrzzizQO3t5xbEaUKuxtQhXKAjXkYBSBkX3eIrbdowUT3x139Xnlzg0OlcEzD-q1WKyNxwULuUmUWSjt4ACz4gVk3M-RYVaL2A8_3fw7WrAOS-5dcZkTPhhjxHvw9xEz3sspuhkwLiM0dY7tQbkkJVZyK3CCwx6xWaNEcqhR9XjS96GH4M_mQr_lh-ua4UutFaMIiwG9pbAEXJCdj_MCiKbN2FMQKlRuUifR-PbngQyNNcBMxP_ufSfLPRk4ZmzE6j-seDJ3gHBjdUz4phnfcGZW8MKwmA7QqKhQ3MTFYLw_N7j6yIpxcEyDl8Ot0Er_P_gDbmsAXDSQ6w";
  const certificate = {
    value: createPublicKey({ key: { kty: "RSA", n: modulus, e: "AQAB" }, format: "jwk" })
      .export({ type: "spki", format: "pem" })
      .toString(),
  };
  const deliveries = [
    {
      webhookId: "4JH86294D6297924G",
      id: "dfb3be50-fd74-11e4-8bf3-77339302725b",
      time: "2015-05-18T15:45:13Z",
      signature:
        "thy4/U002quzxFavHPwbfJGcc46E8rc5jzgyeafWm5mICTBdY/8rl7WJpn8JA0GKA+oDTPsSruqusw+XXg5RLAP7ip53Euh9Xu3UbUhQFX7UgwzE2FeYoY6lyRMiiiQLzy9BvHfIzNIVhPad4KnC339dr6y2l+mN8ALgI4GCdIh3/SoJO5wE64Bh/ueWtt8EVuvsvXfda2Le5a2TrOI9vLEzsm9GS79hAR/5oLexNz8UiZr045Mr5ObroH4w4oNfmkTaDk9Rj0G19uvISs5QzgmBpauKr7Nw++JI0pr/v5mFctQkoWJSGfBGzPRXawrvIIVHQ9Wer48GR2g9ZiApWg==",
      event: "WH-0G2756385H040842W-5Y612302CV158622M",
      body: '{"id":"WH-0G2756385H040842W-5Y612302CV158622M","create_time":"2015-05-18T15:45:13Z","resource_type":"sale","event_type":"PAYMENT.SALE.COMPLETED","summary":"Payment completed for $ 20.0 USD","resource":{"id":"4EU7004268015634R","create_time":"2015-05-18T15:44:02Z","update_time":"2015-05-18T15:44:21Z","amount":{"total":"20.00","currency":"USD"},"payment_mode":"INSTANT_TRANSFER","state":"completed","protection_eligibility":"ELIGIBLE","protection_eligibility_type":"ITEM_NOT_RECEIVED_ELIGIBLE,UNAUTHORIZED_PAYMENT_ELIGIBLE","parent_payment":"PAY-86C81811X5228590KKVNARQQ","transaction_fee":{"value":"0.88","currency":"USD"},"links":[{"href":"https://api.sandbox.paypal.com/v1/payments/sale/4EU7004268015634R","rel":"self","method":"GET"},{"href":"https://api.sandbox.paypal.com/v1/payments/sale/4EU7004268015634R/refund","rel":"refund","method":"POST"},{"href":"https://api.sandbox.paypal.com/v1/payments/payment/PAY-86C81811X5228590KKVNARQQ","rel":"parent_payment","method":"GET"}]},"links":[{"href":"https://api.sandbox.paypal.com/v1/notifications/webhooks-events/WH-0G2756385H040842W-5Y612302CV158622M","rel":"self","method":"GET"},{"href":"https://api.sandbox.paypal.com/v1/notifications/webhooks-events/WH-0G2756385H040842W-5Y612302CV158622M/resend","rel":"resend","method":"POST"}]}',
    },
    {
      webhookId: "9XL90610J3647323C",
      id: "d938e770-8046-11e6-8103-6b62a8a99ac4",
      time: "2016-09-21T22:00:46Z",
      signature:
        "eDOnWUj9FXOnr2naQnrdL7bhgejVSTwRbwbJ0kuk5wAtm2ZYkr7w5BSUDO7e5ZOsqLwN3sPn3RV85Jd9pjHuTlpuXDLYk+l5qiViPbaaC0tLV+8C/zbDjg2WCfvtf2NmFT8CHgPPQAByUqiiTY+RJZPPQC5np7j7WuxcegsJLeWStRAofsDLiSKrzYV3CKZYtNoNnRvYmSFMkYp/5vk4xGcQLeYNV1CC2PyqraZj8HGG6Y+KV4trhreV9VZDn+rPtLDZTbzUohie1LpEy31k2dg+1szpWaGYOz+MRb40U04oD7fD69vghCrDTYs5AsuFM2+WZtsMDmYGI0pxLjn2yw==",
      event: "WH-9UG43882HX7271132-6E0871324L7949614",
      body: '{"id":"WH-9UG43882HX7271132-6E0871324L7949614","event_version":"1.0","create_time":"2016-09-21T22:00:45Z","resource_type":"sale","event_type":"PAYMENT.SALE.COMPLETED","summary":"Payment completed for $ 21.0 USD","resource":{"id":"80F85758S3080410K","state":"completed","amount":{"total":"21.00","currency":"USD","details":{"subtotal":"17.50","tax":"1.30","shipping":"2.20"}},"payment_mode":"INSTANT_TRANSFER","protection_eligibility":"ELIGIBLE","protection_eligibility_type":"ITEM_NOT_RECEIVED_ELIGIBLE,UNAUTHORIZED_PAYMENT_ELIGIBLE","transaction_fee":{"value":"0.91","currency":"USD"},"invoice_number":"57e3028db8d1b","custom":"","parent_payment":"PAY-7F371669SL612941HK7RQFDQ","create_time":"2016-09-21T21:59:02Z","update_time":"2016-09-21T22:00:06Z","links":[{"href":"https://api.sandbox.paypal.com/v1/payments/sale/80F85758S3080410K","rel":"self","method":"GET"},{"href":"https://api.sandbox.paypal.com/v1/payments/sale/80F85758S3080410K/refund","rel":"refund","method":"POST"},{"href":"https://api.sandbox.paypal.com/v1/payments/payment/PAY-7F371669SL612941HK7RQFDQ","rel":"parent_payment","method":"GET"}]},"links":[{"href":"https://api.sandbox.paypal.com/v1/notifications/webhooks-events/WH-9UG43882HX7271132-6E0871324L7949614","rel":"self","method":"GET"},{"href":"https://api.sandbox.paypal.com/v1/notifications/webhooks-events/WH-9UG43882HX7271132-6E0871324L7949614/resend","rel":"resend","method":"POST"}]}',
    },
  ];

  test.each(deliveries)(
    "of $event are verified at their time, and no byte may change",
    (delivery) => {
      const verifier = paypal({ webhookId: { value: delivery.webhookId }, certificate });
      const sent: Sent = {
        body: delivery.body,
        headers: {
          "Paypal-Transmission-Id": delivery.id,
          "Paypal-Transmission-Time": delivery.time,
          "Paypal-Transmission-Sig": delivery.signature,
          "Paypal-Auth-Algo": "SHA256withRSA",
        },
        nowMs: Date.parse(delivery.time),
      };
      expect(verifier.verify(requestOf(sent))).toEqual({
        _tag: "Verified",
        dedupId: delivery.event,
        replayId: delivery.id,
        eventType: "PAYMENT.SALE.COMPLETED",
      });
      const body = delivery.body.replace("USD", "EUR");
      expect(verifier.verify(requestOf({ ...sent, body }))._tag).toBe("Rejected");
      const other = paypal({ webhookId: { value: "4JH86294D6297924H" }, certificate });
      expect(other.verify(requestOf(sent))._tag, "the webhook's id is signed").toBe("Rejected");
    },
  );
});

/** PayPal, and what it is asked for. */
function serve(answer: () => Response | Promise<Response>) {
  const asked: string[] = [];
  const fetch: NonNullable<PaypalOptions["fetch"]> = (url, init) => {
    expect(init.redirect).toBe("error");
    expect(init.signal).toBeInstanceOf(AbortSignal);
    asked.push(url);
    return Promise.resolve().then(answer);
  };
  return { asked, verifier: paypal({ webhookId: { value: WEBHOOK_ID }, fetch }) };
}
const certificate = (validity = valid) => makeCertificate(rsa, validity);
const requestFrom = (certUrl: string, over: Sent = {}, nowMs = NOW_MS) =>
  requestOf({
    body: BODY,
    headers: sign.paypal(BODY, KEY, { webhookId: WEBHOOK_ID, certUrl, nowMs }),
    nowMs,
    ...over,
  });

describe("a request's certificate", () => {
  test("is fetched once, before verification, however many requests wait for it", async () => {
    const { asked, verifier } = serve(() => new Response(certificate()));
    const request = requestFrom(LIVE);
    expect(verifier.verify(request)).toMatchObject({ _tag: "Unavailable" });
    await Promise.all([verifier.prepare!(request), verifier.prepare!(requestFrom(LIVE))]);
    expect(verifier.verify(request)).toMatchObject({ _tag: "Verified", dedupId: "WH-1" });
    expect(verifier.prepare!(requestFrom(LIVE)), "it is kept").toBeUndefined();
    const tampered = requestFrom(LIVE, { body: `${BODY} ` });
    expect(verifier.verify(tampered)._tag).toBe("Rejected");
    expect(asked).toEqual([LIVE]);
  });

  test("is fetched only from PayPal's host and path; any other address is a bad signature", () => {
    const { asked, verifier } = serve(() => new Response(certificate()));
    for (const url of [
      "https://evil.example/v1/notifications/certs/CERT-1",
      "http://api.paypal.com/v1/notifications/certs/CERT-1",
      "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-1",
      "https://api.paypal.com.evil.example/v1/notifications/certs/CERT-1",
      "https://api.paypal.com@evil.example/v1/notifications/certs/CERT-1",
      "https://api.paypal.com:8443/v1/notifications/certs/CERT-1",
      "https://user@api.paypal.com/v1/notifications/certs/CERT-1",
      "https://api.paypal.com/v1/notifications/certs/../../../CERT-1",
      "https://api.paypal.com/v1/notifications/certs/CERT-1/../x",
      "https://api.paypal.com/v1/notifications/certs/CERT-1?next=http://169.254.169.254",
      "https://api.paypal.com/v1/notifications/certs/CERT-1#x",
      "https://api.paypal.com\\@evil.example/v1/notifications/certs/CERT-1",
      " https://api.paypal.com/v1/notifications/certs/CERT-1",
      "HTTPS://api.paypal.com/v1/notifications/certs/CERT-1",
      "https://169.254.169.254/v1/notifications/certs/CERT-1",
      "file:///etc/passwd",
      "x",
    ]) {
      const request = requestFrom(url);
      expect(verifier.prepare!(request), url).toBeUndefined();
      expect(verifier.verify(request), url).toMatchObject({
        _tag: "Rejected",
        reason: expect.stringContaining("PAYPAL-CERT-URL is not PayPal's"),
      });
    }
    expect(asked).toEqual([]);
  });

  test("is the sandbox's if the sandbox is configured", async () => {
    const asked: string[] = [];
    const verifier = paypal({
      webhookId: { value: WEBHOOK_ID },
      environment: "sandbox",
      fetch: (url) => (asked.push(url), Promise.resolve(new Response(certificate()))),
    });
    const sandbox = LIVE.replace("api.", "api.sandbox.");
    expect(verifier.prepare!(requestFrom(LIVE))).toBeUndefined();
    await verifier.prepare!(requestFrom(sandbox));
    expect(verifier.verify(requestFrom(sandbox))._tag).toBe("Verified");
    expect(asked).toEqual([sandbox]);
  });

  test.each([
    ["a refusal", () => new Response("", { status: 404 }), /answered 404/],
    ["no certificate", () => new Response("<html>"), /Error/],
    ["an endless one", () => new Response("x".repeat(65 * 1024)), /too long/],
    ["a failure", () => Promise.reject(new TypeError("fetch failed")), /fetch failed/],
  ] as const)(
    "that arrives as %s causes a 503, and is requested again after half a minute",
    async (_, answer, why) => {
      const { asked, verifier } = serve(answer);
      await verifier.prepare!(requestFrom(LIVE));
      expect(verifier.verify(requestFrom(LIVE))).toMatchObject({
        _tag: "Unavailable",
        message: expect.stringMatching(why),
      });
      expect(verifier.prepare!(requestFrom(LIVE, {}, NOW_MS + 29_000))).toBeUndefined();
      await verifier.prepare!(requestFrom(LIVE, {}, NOW_MS + 31_000));
      expect(asked).toHaveLength(2);
    },
  );

  test("is accepted only while it is valid", async () => {
    const { verifier } = serve(() => new Response(certificate()));
    await verifier.prepare!(requestFrom(LIVE));
    for (const nowMs of [valid.toMs + 1000, valid.fromMs - 1000])
      expect(verifier.verify(requestFrom(LIVE, {}, nowMs))).toMatchObject({
        _tag: "Rejected",
        reason: expect.stringContaining("not valid now"),
      });
  });

  test("is fetched from at most four unknown URLs at a time, which never evict a valid one", async () => {
    let open = (): void => undefined;
    const opened = new Promise<void>((resolve) => (open = resolve));
    let real = true;
    const { asked, verifier } = serve(async () => {
      if (real) return new Response(certificate());
      await opened;
      return new Response("", { status: 404 });
    });
    await verifier.prepare!(requestFrom(LIVE));
    real = false;
    const waits = Array.from({ length: 100 }, (_, i) =>
      verifier.prepare!(requestFrom(`${LIVE}-${i}`)),
    );
    expect(waits.filter((wait) => wait !== undefined)).toHaveLength(4);
    open();
    await Promise.all(waits);
    for (let i = 4; i < 100; i++) await verifier.prepare!(requestFrom(`${LIVE}-${i}`));
    expect(asked).toHaveLength(101);
    expect(verifier.prepare!(requestFrom(LIVE))).toBeUndefined();
    expect(verifier.verify(requestFrom(LIVE))._tag).toBe("Verified");
  });
});

test("a certificate from the environment needs no fetch, and several may be live", () => {
  const verifier = paypal({ webhookId: "ID", certificate: ["OLD", "NEW"] });
  const env = { ID: WEBHOOK_ID, OLD: certificate().replaceAll("\n", "\\n") };
  expect(verifier.prepare).toBeUndefined();
  expect(verifier.verify(requestFrom("ignored", { env }))._tag).toBe("Verified");
  expect(verifier.verify(requestFrom("ignored", { env: { ID: WEBHOOK_ID } }))).toMatchObject({
    _tag: "Misconfigured",
    message: expect.stringContaining("OLD and NEW are not set"),
  });
  expect(verifier.verify(requestFrom("ignored", { env: { OLD: env.OLD } }))).toMatchObject({
    _tag: "Misconfigured",
    message: expect.stringContaining("ID is not set"),
  });
});

test("a body with a signed one's CRC-32 passes, and its transmission id reveals it", () => {
  const forged = withCrc('{"id":"WH-9","forged":"', crc32(BODY));
  const verifier = paypal({
    webhookId: { value: WEBHOOK_ID },
    certificate: { value: certificate() },
  });
  const first = verifier.verify(requestFrom("ignored"));
  const headers = sign.paypal(BODY, KEY, { webhookId: WEBHOOK_ID, nowMs: NOW_MS, id: "t-1" });
  const honest = verifier.verify(requestOf({ body: BODY, headers }));
  const second = verifier.verify(requestOf({ body: forged, headers }));
  expect([first, honest, second].map((verdict) => verdict._tag)).toEqual(Array(3).fill("Verified"));
  expect(honest).toMatchObject({ dedupId: "WH-1", replayId: "t-1" });
  expect(second).toMatchObject({ replayId: "t-1" });
});

/** Four bytes after `start` for the wanted CRC-32 of the whole: linear, so they can be solved. */
function withCrc(start: string, wanted: number): Uint8Array {
  const at = (tail: number) => {
    const bytes = Buffer.alloc(Buffer.byteLength(start) + 4);
    bytes.write(start);
    bytes.writeUInt32LE(tail >>> 0, bytes.length - 4);
    return bytes;
  };
  const zero = crc32(at(0));
  /** By highest bit of the effect: the effect, and the tail that has it. */
  const basis = new Map<number, readonly [effect: number, tail: number]>();
  const reduce = (effect: number, tail: number): readonly [number, number] => {
    for (let bit = 31; bit >= 0; bit--) {
      const known = (effect >>> bit) & 1 ? basis.get(bit) : undefined;
      if (known !== undefined) [effect, tail] = [effect ^ known[0], tail ^ known[1]];
    }
    return [effect, tail];
  };
  for (let i = 0; i < 32; i++) {
    const [effect, tail] = reduce(crc32(at(1 << i)) ^ zero, 1 << i);
    if (effect !== 0) basis.set(31 - Math.clz32(effect), [effect, tail]);
  }
  return at(reduce(wanted ^ zero, 0)[1]);
}

test("an unknown environment is refused when declared", () => {
  expect(() => paypal({ webhookId: "ID", environment: "test" as never })).toThrow(
    /"live" or "sandbox"/,
  );
});
