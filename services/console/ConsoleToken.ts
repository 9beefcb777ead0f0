/**
 * Who may see the console: whoever knows its token. It comes once in the URL that was printed, and then in a cookie that
 * only this origin sends, or in `Authorization: Bearer` for programs.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { HttpRequest } from "../../core/http/HttpServer.ts";

const COOKIE = "agents_console";

export class ConsoleToken {
  private readonly digest: Buffer;

  constructor(token: string) {
    this.digest = digestOf(token);
  }

  is(token: string | undefined): boolean {
    return token !== undefined && timingSafeEqual(digestOf(token), this.digest);
  }

  isIn({ headers }: HttpRequest): boolean {
    const bearer = /^bearer +(.*)$/i.exec(headers["authorization"]?.[0] ?? "");
    if (bearer !== null) return this.is(bearer[1]);
    const cookies = (headers["cookie"] ?? []).flatMap((line) => line.split(/;\s*/));
    return cookies.some((pair) => {
      const [name, value] = pair.split("=", 2);
      return name === COOKIE && this.is(decodeURIComponent(value ?? ""));
    });
  }

  /** For `set-cookie`: until the browser is closed, never to scripts, never from another site. */
  static cookie(token: string): string {
    return `${COOKIE}=${encodeURIComponent(token)}; HttpOnly; SameSite=Strict; Path=/`;
  }
}

const digestOf = (token: string): Buffer => createHash("sha256").update(token).digest();
