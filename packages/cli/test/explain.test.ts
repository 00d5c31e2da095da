/** `tilewright explain`: the pages of rules and diagnostics, and that they say something right. */
import { readFileSync } from "node:fs";
import { rules } from "@tilewright/emulator";
import { resolveMnemonic } from "@tilewright/ptx";
import { describe, expect, test } from "vitest";
import { codes } from "../src/codes.ts";
import { codePages, rulePages } from "../src/emulation/pages.ts";
import { cli } from "./harness.ts";

const page = (name: string): string =>
  readFileSync(new URL(`../../../docs/${name}`, import.meta.url), "utf8");
const pages = rulePages(page("hazards/README.md"));

describe("docs/hazards/README.md", () => {
  test("every rule has its section with all parts, in order", () => {
    expect(pages.map(({ rule, name }) => [rule, name])).toEqual(
      Object.entries(rules).map(([rule, { name }]) => [rule, name]),
    );
    for (const { rule, checks, isa } of pages) {
      expect(checks).toContain(rules[rule as keyof typeof rules].sentence);
      expect(isa.every((title) => title.length > 1)).toBe(true);
    }
  });

  test("the instructions of the fixes exist", () => {
    const mnemonics = pages.flatMap(({ fix }) =>
      fix.split("\n").flatMap((line) => {
        const [, mnemonic] = /^(?:\w+: )?(?:@!?%\w+ )?([a-z][\w.:]*)[ ;]/.exec(line) ?? [];
        return mnemonic === undefined ? [] : [mnemonic];
      }),
    );
    expect(mnemonics.length).toBeGreaterThan(pages.length);
    expect(mnemonics.flatMap((one) => (resolveMnemonic(one).ok ? [] : [one]))).toEqual([]);
  });
});

test("docs/errors.md is read whole, and agrees with the table of this package", () => {
  const text = page("errors.md");
  const found = codePages(text);
  expect(found).toHaveLength([...text.matchAll(/^\| TW/gm)].length);
  for (const { code, kind } of Object.values(codes))
    expect(found.find((one) => one.code === code)?.kinds).toContain(kind);
});

describe("explain", () => {
  test("a rule by number or name: what it looks at, hardware, right code, the ISA", async () => {
    const { code, stdout } = await cli("explain h033");
    expect(code).toBe(0);
    expect(stdout).toBe((await cli("explain missing-proxy-fence")).stdout);
    for (const part of [
      "H033 missing-proxy-fence (error, --check async)",
      "On hardware:",
      "  fence.proxy.async.shared::cta;",
      "PTX ISA: Async proxy",
    ])
      expect(stdout).toContain(part);
    expect((await cli("explain H054")).stdout).toContain("--profile triton");
    const object = JSON.parse((await cli("explain H033 --json")).stdout);
    expect(object).toMatchObject({ rule: "H033", check: "async", severity: "error", omission: false });
    expect(object.isa).toContain("Async proxy");
  });

  test("prose fits the terminal, code does not break", async () => {
    const { stdout } = await cli("explain H033 --color never", { columns: 60 });
    const long = stdout.split("\n").filter((line) => line.length > 60);
    expect(long.every((line) => line.startsWith("  "))).toBe(true);
    expect(long).toContain("  @%elected cp.async.bulk.global.shared::cta.bulk_group [%out], [%tile], 4096;");
  });

  test("a diagnostic", async () => {
    const { stdout } = await cli("explain TW7061");
    expect(stdout).toMatch(/^TW7061 \(check → 5\)\n\n.*hazard.*\n\nWhat to do: \S.*\n$/s);
  });

  test("without a name all rules; a wrong one with the nearest", async () => {
    const { stdout } = await cli("explain");
    expect(stdout.trim().split("\n")).toHaveLength(pages.length);
    const wrong = await cli("explain H0333");
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toMatch(/there is no rule or diagnostic 'H0333'\n.*did you mean H033/);
  });
});
