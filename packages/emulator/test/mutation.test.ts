/**
 * Mutants of the golden SIMT kernel: each has one bug of a kind that people make. Every mutant has to show in the findings
 * or in the numbers, in some order; the unchanged kernel in none.
 */
import { describe, expect, test } from "vitest";
import { fixture, machine, orders } from "./support.ts";

const source = fixture("golden/simt_f32.ptx");
const lines = source.split("\n");
const matching = (pattern: RegExp): number[] => lines.flatMap((line, k) => (pattern.test(line) ? [k] : []));
const replaced = (at: number, line: string): string =>
  lines.map((old, k) => (k === at ? line : old)).join("\n");

interface Mutant {
  readonly name: string;
  readonly text: string;
}
const mutants: Mutant[] = [];
const mutate = (
  pattern: RegExp,
  name: string,
  change: (line: string) => string,
  pick: (k: number) => boolean = () => true,
): void => {
  matching(pattern).forEach((at, k) => {
    if (!pick(k)) return;
    const old = lines[at] ?? "";
    mutants.push({ name: `${name}, line ${at + 1}: ${old}`, text: replaced(at, change(old)) });
  });
};
mutate(/^bar\.sync/, "barrier dropped", () => "");
mutate(/^bar\.sync/, "barrier for half the block", () => "bar.sync 0, 128;");
mutate(
  /^ld\.shared/,
  "shared load one vector off",
  (l) => l.replace("+", "+16+").replace(/\+16\+(\d+)/, (_, n) => `+${Number(n) + 16}`),
  (k) => k % 9 === 0,
);
mutate(/^st\.shared/, "shared store one word off", (l) =>
  l.replace(/\+(\d+)\]|\]/, (_, n) => `+${Number(n ?? 0) + 4}]`),
);
mutate(/^st\.shared/, "shared store dropped", () => "");
mutate(/^ld\.global/, "global load one row on", (l) => l.replace(/\]/, "+1048576]"));
mutate(
  /^st\.global/,
  "global store dropped",
  () => "",
  (k) => k % 5 === 0,
);
mutate(
  /^st\.global/,
  "global store misaligned",
  (l) => l.replace(/(%rd\d+)(?:\+(\d+))?\]/, (_, base, n) => `${base}+${Number(n ?? 0) + 4}]`),
  (k) => k % 7 === 0,
);
mutate(
  /^fma/,
  "accumulator mixed up",
  (l) => l.replace(/%acc(\d+), %a/, (_, n) => `%acc${(Number(n) + 1) % 64}, %a`),
  (k) => k % 101 === 0,
);
mutate(
  /^mov\.f32 %acc/,
  "accumulator not cleared",
  () => "",
  (k) => k % 21 === 0,
);
mutate(/^setp/, "one K step too many", (l) => l.replace("setp.lt", "setp.le"));
mutate(/^shl\.b32 %r6/, "block row offset halved", (l) => l.replace(", 7;", ", 6;"));
mutate(/^cvta\.to\.global/, "not a global address", (l) => l.replace("cvta.to.global", "cvta.shared"));

const [m, n, k] = [256, 128, 16];
const a = Float32Array.from({ length: m * k }, (_, i) => ((i * 7) % 9) - 4);
const b = Float32Array.from({ length: k * n }, (_, i) => ((i * 5) % 7) - 3);
const want = new Float32Array(m * n);
for (let i = 0; i < m; i++)
  for (let q = 0; q < k; q++)
    for (let j = 0; j < n; j++)
      want[i * n + j] = (want[i * n + j] ?? 0) + (a[i * k + q] ?? 0) * (b[q * n + j] ?? 0);

/** What gives a kernel away: rules and orders, `numbers` for a wrong result; nothing for a right kernel. */
function verdicts(text: string): string[] {
  const device = machine(text);
  const [pa, pb] = [device.put(a), device.put(b)];
  return orders.flatMap((order) => {
    const c = device.put(new Float32Array(m * n).fill(Number.NaN));
    const report = device.launch("simt_f32", [n / 128, m / 128, 1], 256, [pa, pb, c, m, n, k], {
      order,
      fuel: 1e6,
    });
    const rules = report.findings.map((f) => `${f.rule} ${order}`);
    const got = device.f32(c, m * n);
    return got.every((x, i) => x === want[i]) ? rules : [...rules, `numbers ${order}`];
  });
}

describe("mutants of simt_f32", () => {
  test("the kernel itself is clean", () => {
    expect(verdicts(source)).toEqual([]);
  });
  test(`all ${mutants.length} mutants are caught`, () => {
    expect(mutants.length).toBeGreaterThan(30);
    const missed = mutants.filter(({ text }) => verdicts(text).length === 0).map(({ name }) => name);
    expect(missed).toEqual([]);
  });
  test("a dropped barrier shows in the race checker in every order, whatever the numbers say", () => {
    for (const { name, text } of mutants.filter((x) => x.name.startsWith("barrier dropped"))) {
      const got = verdicts(text);
      for (const order of orders)
        expect(
          got.some((v) => /^H0(09|10|11)/.test(v) && v.endsWith(order)),
          `${name} ${order}: ${got}`,
        ).toBe(true);
    }
  });
});
