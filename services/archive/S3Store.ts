/**
 * An archive in a bucket of S3, or of a server that speaks its protocol (`--archive s3://…`).
 *
 * 1. A put object is complete or absent, and can be read at once: S3 has guaranteed both since
 *    December 2020. `SegmentArchive` reads each object back all the same.
 * 2. The client is `@aws-sdk/client-s3`, an optional peer that is loaded when the archive is first
 *    used. Credentials, region and endpoint come from AWS's own variables and files, never from the
 *    URL, which is logged.
 * 3. Every request ends: it is tried a few times, with the client's pauses for a throttled bucket,
 *    and aborted after a limited time.
 */
import type { S3Client, S3ClientConfig } from "@aws-sdk/client-s3";
import type { ArchiveStore } from "./ArchiveStore.ts";

/** The client waits up to two seconds between attempts. The next walk tries again anyway. */
const ATTEMPTS_MAX = 4;
/** For all attempts of a request. A segment of 8 MiB over 2 Mbit/s takes half of it. */
const REQUEST_TIMEOUT_MS = 60_000;
/** The client's own text for it is "aborted". */
const SILENT = `TimeoutError: no whole answer within ${REQUEST_TIMEOUT_MS / 1_000} s`;

type Sdk = typeof import("@aws-sdk/client-s3");

export interface S3StoreOptions {
  readonly bucket: string;
  /** Without slashes at its ends; empty: the bucket's root. */
  readonly prefix: string;
  /** Default: configured by the environment. */
  readonly client?: S3ClientConfig;
}

export class S3Store implements ArchiveStore {
  readonly name: string;
  private readonly folder: string;
  private opening: Promise<{ readonly sdk: Sdk; readonly client: S3Client }> | undefined;

  constructor(private readonly options: S3StoreOptions) {
    this.folder = options.prefix === "" ? "" : `${options.prefix}/`;
    this.name = `s3://${options.bucket}/${options.prefix}`;
  }

  put(key: string, bytes: Uint8Array): Promise<void> {
    return this.request(async ({ sdk, client, at, abortSignal }) => {
      await client.send(new sdk.PutObjectCommand({ ...at(key), Body: bytes }), { abortSignal });
    });
  }

  get(
    key: string,
    range?: { readonly offset: number; readonly bytes: number },
  ): Promise<Uint8Array | undefined> {
    return this.request(async ({ sdk, client, at, abortSignal }) => {
      const Range = range && `bytes=${range.offset}-${range.offset + range.bytes - 1}`;
      const asked = new sdk.GetObjectCommand({ ...at(key), ...(Range && { Range }) });
      try {
        const { Body } = await client.send(asked, { abortSignal });
        return await Body!.transformToByteArray();
      } catch (error) {
        const code = codeOf(error);
        if (code === "NoSuchKey") return undefined;
        // The object ends before the range begins.
        if (code === "InvalidRange") return new Uint8Array(0);
        throw error;
      }
    });
  }

  async *list(prefix: string): AsyncGenerator<string, void, void> {
    let token: string | undefined;
    do {
      const ContinuationToken = token;
      const page = await this.request(({ sdk, client, at, abortSignal }) => {
        const { Bucket, Key: Prefix } = at(prefix);
        const asked = { Bucket, Prefix, ...(ContinuationToken && { ContinuationToken }) };
        return client.send(new sdk.ListObjectsV2Command(asked), { abortSignal });
      });
      for (const { Key } of page.Contents ?? []) yield Key!.slice(this.folder.length);
      token = page.IsTruncated === true ? page.NextContinuationToken : undefined;
    } while (token !== undefined);
  }

  /** Rules 2 and 3. */
  private async request<A>(
    send: (request: {
      readonly sdk: Sdk;
      readonly client: S3Client;
      readonly at: (key: string) => { readonly Bucket: string; readonly Key: string };
      readonly abortSignal: AbortSignal;
    }) => Promise<A>,
  ): Promise<A> {
    const { bucket } = this.options;
    const at = (key: string) => ({ Bucket: bucket, Key: this.folder + key });
    const { sdk, client } = await (this.opening ??= this.open());
    const abortSignal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    try {
      return await send({ sdk, client, at, abortSignal });
    } catch (error) {
      // oxlint-disable-next-line preserve-caught-error -- it has the signed request; errors are logged
      throw new Error(abortSignal.aborted ? SILENT : faultOf(error, bucket));
    }
  }

  private async open(): Promise<{ readonly sdk: Sdk; readonly client: S3Client }> {
    const sdk = await import("@aws-sdk/client-s3").catch((error: unknown) => {
      this.opening = undefined;
      throw new Error(
        `its client can't be loaded: npm install @aws-sdk/client-s3 (${String(error)})`,
      );
    });
    const { AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION } = process.env;
    const endpoint = AWS_ENDPOINT_URL_S3 ?? AWS_ENDPOINT_URL;
    const client = new sdk.S3Client({
      maxAttempts: ATTEMPTS_MAX,
      // Servers other than AWS's seldom support a host name for each bucket, or regions.
      ...(endpoint !== undefined && { forcePathStyle: true, region: AWS_REGION ?? "us-east-1" }),
      ...this.options.client,
    });
    return { sdk, client };
  }
}

const codeOf = (error: unknown): string => (error instanceof Error ? error.name : String(error));

/** A text that says what happened, and what to do about it. */
function faultOf(error: unknown, bucket: string): string {
  const code = codeOf(error);
  const { $metadata, $response } = error as {
    readonly $metadata?: { readonly httpStatusCode?: number };
    readonly $response?: { readonly headers?: Readonly<Record<string, string>> };
  };
  const status = $metadata?.httpStatusCode;
  const said = `${code}${status === undefined ? "" : ` (${status})`}: ${(error as Error).message.replace(/\.$/, "")}`;
  const remedy = REMEDIES.find(({ codes }) => codes.includes(code))?.remedy;
  if (remedy !== undefined) return `${said}. ${remedy(bucket)}`;
  const region = $response?.headers?.["x-amz-bucket-region"];
  if (region !== undefined && REGION_CODES.includes(code))
    return `${said}. The bucket ${bucket} is in ${region}: set AWS_REGION=${region}`;
  return said;
}

const REGION_CODES = ["PermanentRedirect", "AuthorizationHeaderMalformed", "301"];

const REMEDIES: ReadonlyArray<{
  readonly codes: ReadonlyArray<string>;
  readonly remedy: (bucket: string) => string;
}> = [
  {
    codes: ["NoSuchBucket"],
    remedy: (bucket) => `Create the bucket ${bucket}, or correct --archive and AWS_ENDPOINT_URL`,
  },
  {
    codes: ["AccessDenied", "Forbidden"],
    remedy: (bucket) =>
      `Allow s3:GetObject and s3:PutObject on the objects of ${bucket}, and s3:ListBucket on it`,
  },
  {
    codes: ["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"],
    remedy: () => "Correct AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
  },
  {
    codes: ["CredentialsProviderError"],
    remedy: () =>
      "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or assign a role to the machine",
  },
  { codes: ["RequestTimeTooSkewed"], remedy: () => "Correct this machine's clock" },
  {
    codes: ["InvalidObjectState"],
    remedy: () =>
      "A lifecycle rule has moved it to a storage class without immediate access: restore it first",
  },
  {
    codes: ["SlowDown", "ServiceUnavailable", "ThrottlingException", "TooManyRequestsException"],
    remedy: () => "The bucket is throttled: this is retried automatically",
  },
];
