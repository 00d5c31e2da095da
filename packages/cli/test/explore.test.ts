import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, sep } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { serveExplorer } from "../src/explore/serve.ts";

const folder = mkdtempSync(join(tmpdir(), "tilewright-explore-")) + sep;
writeFileSync(join(folder, "index.html"), "<!doctype html>page");
writeFileSync(join(folder, "main.js"), "export {};");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("tilewright explore", () => {
  test("serves its files on this machine, and nothing else", async () => {
    const served = await serveExplorer(0, ["/nowhere/", folder]);
    if (!served.ok) throw new Error("it does not listen");
    const { url, server } = served.value;
    const get = async (path: string) => {
      const response = await fetch(new URL(path, url));
      return [response.status, response.headers.get("content-type"), await response.text()];
    };
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
    expect(await get("/")).toEqual([200, "text/html; charset=utf-8", "<!doctype html>page"]);
    expect((await get("/main.js?x=1"))[1]).toBe("text/javascript; charset=utf-8");
    for (const path of ["/other.js", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fhosts.txt"])
      expect((await get(path))[0]).toBe(404);
    const again = await serveExplorer(Number(new URL(url).port), [folder]);
    expect(again.ok ? [] : again.error.map(({ code, at }) => [code, at])).toEqual([["TW7003", "--port"]]);
    await new Promise((resolve) => server.close(resolve));
  });

  test("without its files says what to do", async () => {
    const served = await serveExplorer(0, ["/nowhere/"]);
    expect(served.ok ? [] : served.error.map(({ code, hint }) => [code, hint])).toEqual([
      ["TW7010", "in a clone: npm run build"],
    ]);
  });
});
