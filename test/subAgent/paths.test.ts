/** Addresses of sub-agents: as stored, and in URLs. */
import fc from "../kit/property.ts";
import { describe, expect, test } from "vitest";
import { buildAgentPath, buildAgentUrl, parseSubAgentPath } from "agents";
import { agentId } from "../../schemas/Address.ts";
import { agentPath, idOfPath } from "../../schemas/AgentPath.ts";

const step = fc.record({
  className: fc.constantFrom("Supervisor", "Job_Runner", "A", "$x"),
  name: fc.string({ minLength: 1, maxLength: 12, unit: fc.constantFrom(..."ab/%2F5 é🙂.\\") }),
});

describe("an address", () => {
  test("contains its whole path, and two paths never share an address", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 2, maxLength: 5 }), (path) => {
        expect(agentPath(idOfPath(path))).toEqual(path);
      }),
    );
  });

  test("is written as documented, and a top-level agent's is its name", () => {
    const path = [
      { className: "Supervisor", name: "a/b" },
      { className: "JobRunner", name: "50%" },
      { className: "Tool", name: "web" },
    ];
    expect(idOfPath(path)).toEqual({
      class: "Tool",
      name: "/Supervisor/a%2Fb/JobRunner/50%25/web",
    });
    expect(agentPath(agentId("Repo", "acme/api"))).toEqual([
      { className: "Repo", name: "acme/api" },
    ]);
    // No path has such a name; what is not understood is left as it is.
    expect(agentPath(agentId("Repo", "/a/b"))).toEqual([{ className: "Repo", name: "/a/b" }]);
    expect(() => idOfPath([path[0]!, { className: "Tool", name: "x".repeat(1020) }])).toThrow(
      "the limit is 1024 bytes",
    );
  });
});

describe("a URL", () => {
  test("yields the first sub-agent of its path", () => {
    const parse = (path: string, knownClasses?: string[]) =>
      parseSubAgentPath(`http://any${path}`, knownClasses === undefined ? {} : { knownClasses });
    expect(parse("/agents/inbox/bob/sub/my-chat/a%20b/x/y?z=1")).toEqual({
      childClass: "MyChat",
      childName: "a b",
      remainingPath: "/x/y",
    });
    expect(parse("/sub/chat/1")).toMatchObject({ childName: "1", remainingPath: "/" });
    expect(parse("/sub/chat/1/sub/tool/2")).toMatchObject({ remainingPath: "/sub/tool/2" });
    expect(parse("/sub/chat", undefined)).toBeNull();
    expect(parse("/sub/chat/1", ["Tool"])).toBeNull();
    expect(parse("/sub/chat/1/sub/tool/2", ["Tool"])).toMatchObject({ childClass: "Tool" });
    expect(parse("/sub/chat/%E0/sub/chat/2")).toMatchObject({ childName: "2" });
  });

  test("is built from a path, and parsed back to it", () => {
    const path = [
      { className: "Supervisor", name: "user-1" },
      { className: "JobRunner", name: "a b/c?" },
    ];
    expect(buildAgentPath(path)).toBe("/agents/supervisor/user-1/sub/job-runner/a%20b%2Fc%3F");
    expect(buildAgentPath(path.slice(0, 1), { prefix: "/api/v1/", leafPath: "x/y" })).toBe(
      "/api/v1/supervisor/user-1/x/y",
    );
    expect(buildAgentPath(path, { rootBinding: "BOSS", leafPath: "/done" })).toBe(
      "/agents/boss/user-1/sub/job-runner/a%20b%2Fc%3F/done",
    );
    const url = buildAgentUrl("https://example.com", path);
    expect(url.href).toBe(`https://example.com${buildAgentPath(path)}`);
    expect(parseSubAgentPath(url.href)).toMatchObject({ childName: "a b/c?" });
  });

  test("is rejected if it is impossible", () => {
    const at = (...names: string[]) => names.map((name) => ({ className: "Agent1", name }));
    expect(() => buildAgentPath([])).toThrow("at least one step");
    for (const name of ["sub", "a b", "a/b", "", "é", ".", "a?b"])
      expect(() => buildAgentPath(at(name)), name).toThrow("root Agent name");
    for (const name of ["", ".", ".."])
      expect(() => buildAgentPath(at("a", name)), name).toThrow("sub-agent name");
    expect(() => buildAgentPath([{ className: "Sub", name: "a" }])).toThrow('"sub" is reserved');
    expect(() => buildAgentPath(at("a"), { prefix: "x/sub" })).toThrow('"sub" is reserved');
    expect(() => buildAgentPath(at("a"), { leafPath: "x?y" })).toThrow("Invalid leafPath");
    for (const origin of ["ftp://a", "https://a/b", "https://u@a", "a", "https://a?b"])
      expect(() => buildAgentUrl(origin, at("a")), origin).toThrow("Invalid Agent URL origin");
  });
});
