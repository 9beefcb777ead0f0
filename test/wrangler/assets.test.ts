import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { Assets } from "../../services/wrangler/Assets.ts";
import type { AssetsConfig } from "../../services/wrangler/WranglerConfig.ts";
import { tempFolder } from "../kit/tempFolder.ts";

let root: string;
beforeAll(() => {
  root = tempFolder("assets").path;
  mkdirSync(join(root, "public/docs"), { recursive: true });
  mkdirSync(join(root, "public/.git"));
  writeFileSync(join(root, "secret.txt"), "secret");
  writeFileSync(join(root, "public/index.html"), "<p>index");
  writeFileSync(join(root, "public/about.html"), "<p>about");
  writeFileSync(join(root, "public/docs/index.html"), "<p>docs");
  writeFileSync(join(root, "public/app.js"), "1");
  writeFileSync(join(root, "public/.git/config"), "secret");
  symlinkSync(join(root, "secret.txt"), join(root, "public/link.txt"));
});

const assets = (more: Partial<AssetsConfig> = {}): Assets =>
  new Assets({ directory: join(root, "public"), singlePage: false, moduleFirst: [], ...more });
const get = (path: string, headers: Record<string, string> = {}): Request =>
  new Request(`http://localhost${path}`, { headers });
const text = async (response: Response | undefined): Promise<string | undefined> =>
  response?.text();

describe("static files of a module", () => {
  it.each([
    ["/", "<p>index"],
    ["/about", "<p>about"],
    ["/docs/", "<p>docs"],
    ["/app.js", "1"],
  ])("include %s", async (path, content) => {
    expect(await text(await assets().before(get(path)))).toBe(content);
  });

  it("have a content type, and an etag that saves the body", async () => {
    const first = await assets().before(get("/app.js"));
    expect(first!.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
    const etag = first!.headers.get("etag")!;
    const again = await assets().before(get("/app.js", { "if-none-match": etag }));
    expect([again!.status, await again!.text()]).toEqual([304, ""]);
  });

  it("are read as they are taken, if they are large", async () => {
    const content = Buffer.alloc(4 * 1024 * 1024, "a line of the file\n");
    writeFileSync(join(root, "public/large.txt"), content);
    const reader = (await assets().before(get("/large.txt")))!.body!.getReader();
    const pieces: Uint8Array[] = [];
    for (let read = await reader.read(); !read.done; read = await reader.read())
      pieces.push(read.value as Uint8Array);
    expect(Buffer.concat(pieces).equals(content)).toBe(true);
    expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThanOrEqual(64 * 1024);
  });

  it("have another etag once they were replaced", async () => {
    const served = assets();
    const etags: Array<string | null> = [];
    for (const content of ["one", "other"]) {
      writeFileSync(join(root, "public/built.js"), content);
      const response = (await served.before(get("/built.js")))!;
      expect(await response.text()).toBe(content);
      etags.push(response.headers.get("etag"));
    }
    expect(new Set(etags).size).toBe(2);
  });

  it.each(["/link.txt", "/.git/config", "/..%2fsecret.txt", "/%2e%2e/secret.txt", "/%00", "/%ff"])(
    "do not include %s",
    async (path) => {
      expect(await assets().before(get(path))).toBeUndefined();
    },
  );

  it.each(["/admin/secret.html", "/admin/secret", "//admin/secret.html", "/%61dmin/secret.html", "/admin%2fsecret.html", "/admin", "/admin/", "/alias.html"])(
    "leave %s to a module that guards its folder",
    async (path) => {
      mkdirSync(join(root, "public/admin"), { recursive: true });
      writeFileSync(join(root, "public/admin/secret.html"), "secret");
      writeFileSync(join(root, "public/admin/index.html"), "secret");
      const alias = join(root, "public/alias.html");
      symlinkSync(join(root, "public/admin/secret.html"), alias);
      const guarded = assets({ moduleFirst: ["/admin/*"] });
      expect(await guarded.before(get(path))).toBeUndefined();
      expect(await text(await guarded.fetch(get("/admin/secret")))).toBe("secret");
      const open = assets({ moduleFirst: ["/*", "!/about"] });
      expect(await text(await open.before(get("/about")))).toBe("<p>about");
      rmSync(alias);
    },
  ); // prettier-ignore

  it.each([
    ["/docs", "/docs"],
    ["/docs", "//docs"],
    ["/docs", "/%64ocs"],
    ["/docs/", "/docs//"],
    ["/docs/", "/d%6fcs%2f"],
  ])("leave what %s names to the module, also as %s", async (pattern, path) => {
    const guarded = assets({ moduleFirst: [pattern] });
    expect(await guarded.before(get(path))).toBeUndefined();
    expect(await text(await assets().before(get(path)))).toBe("<p>docs");
  });

  it.each(["*", 'W/"other", W/ETAG', '"other",ETAG'])("save the body for If-None-Match %s", async (tags) => {
    const etag = (await assets().before(get("/app.js")))!.headers.get("etag")!;
    const headers = { "if-none-match": tags.replace("ETAG", etag) };
    expect((await assets().before(get("/app.js", headers)))!.status).toBe(304);
    const other = await assets().before(get("/app.js", { "if-none-match": `"x", ${etag}x` }));
    expect(other!.status).toBe(200);
  }); // prettier-ignore

  it.each(["_headers", "_redirects", "_worker.js"])("do not include %s", async (name) => {
    writeFileSync(join(root, "public", name), "x");
    expect(await assets().before(get(`/${name}`))).toBeUndefined();
    writeFileSync(join(root, "public/docs", name), "x");
    expect(await text(await assets().before(get(`/docs/${name}`)))).toBe("x");
  });

  it("do not include what .assetsignore names, also after it changes", async () => {
    writeFileSync(join(root, "public/secret.json"), "secret");
    symlinkSync(join(root, "public/secret.json"), join(root, "public/alias.json"));
    const all = assets();
    expect(await text(await all.before(get("/secret.json")))).toBe("secret");
    writeFileSync(join(root, "public/.assetsignore"), "# sources\nsecret.*\n/about.html\n");
    for (const path of ["/secret.json", "/alias.json", "/about", "/about.html", "/.assetsignore"])
      expect([path, await all.before(get(path))]).toEqual([path, undefined]);
    expect((await all.fetch("http://localhost/secret.json")).status).toBe(404);
    expect(await text(await all.before(get("/")))).toBe("<p>index");
    rmSync(join(root, "public/.assetsignore"));
    expect(await text(await all.before(get("/secret.json")))).toBe("secret");
  });

  it("leave a POST, and a path without a file, to the module", async () => {
    const post = new Request("http://localhost/app.js", { method: "POST", body: "x" });
    expect(await assets().before(post)).toBeUndefined();
    expect(await assets().before(get("/agents/repo/x"))).toBeUndefined();
  });

  it("answer navigations with the single page, and nothing else", async () => {
    const single = assets({ singlePage: true });
    const navigation = get("/orders/1", { "sec-fetch-mode": "navigate" });
    expect(await text(await single.before(navigation))).toBe("<p>index");
    expect(await single.before(get("/api/orders"))).toBeUndefined();
    expect(await assets().before(navigation)).toBeUndefined();
  });

  it("leave what run_worker_first names to the module, except its exclusions", async () => {
    const some = assets({ moduleFirst: ["/docs/*", "/app.js", "!/docs/index.html"] });
    expect(await some.before(get("/docs/"))).toBeUndefined();
    expect(await some.before(get("/app.js"))).toBeUndefined();
    expect(await text(await some.before(get("/docs/index.html")))).toBe("<p>docs");
    expect(await assets({ moduleFirst: true }).before(get("/"))).toBeUndefined();
  });

  it.each([
    ["/docs/index.html", true],
    ["*", true],
    ["*.html", true],
    ["/d*c*/*x.h*l", true],
    ["/docs/**index.html", true],
    ["/docs/index.html*", true],
    ["/docs", false],
    ["docs/*", false],
    ["/docs/*.htm", false],
    ["/docs/index.html*.html", false],
    ["/*index*docs*", false],
    ["/docs/.ndex.html", false],
  ])(
    "with run_worker_first %s leave /docs/index.html to the module: %s",
    async (pattern, isFirst) => {
      const file = await assets({ moduleFirst: [pattern] }).before(get("/docs/index.html"));
      expect(file === undefined).toBe(isFirst);
    },
  );

  // By a regular expression it is 15 s.
  it(
    "are matched quickly for a long path and a pattern of many stars",
    { timeout: 10_000 },
    async () => {
      const many = assets({ moduleFirst: ["/*/x/*/y/*/z"] });
      expect(await many.before(get("/x/y".repeat(2_500)))).toBeUndefined();
    },
  );

  it("are served by the binding's fetch whatever comes first, or 404", async () => {
    const all = assets({ moduleFirst: true });
    expect(await text(await all.fetch("http://localhost/about"))).toBe("<p>about");
    expect((await all.fetch("http://localhost/nope")).status).toBe(404);
  });

  it("are empty if the folder is missing", async () => {
    expect(await assets({ directory: join(root, "nope") }).before(get("/"))).toBeUndefined();
  });
});
