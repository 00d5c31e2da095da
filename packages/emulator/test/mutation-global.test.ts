/** Faults planted in kernels that exchange data through global memory: each is found by a rule that should find it, under at most twenty seeds. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { LaunchConfig } from "../src/index.ts";
import { type GlobalSubject, globalBytes, globalSubjects, planted } from "./mutation/global.ts";
import { globalSection } from "./mutation/page.ts";
import { machine } from "./support.ts";

const seeds = Array.from({ length: 20 }, (_, k) => ({ order: "random", seed: k + 1 }) as const);

/** Rules that a text shows in one order after another, as long as `more` says so. */
function rulesOf(
  subject: GlobalSubject,
  text: string,
  orders: readonly Pick<LaunchConfig, "order" | "seed">[],
  more: (rules: readonly string[]) => boolean,
): readonly string[] {
  const device = machine(text);
  const out = device.put(new Uint8Array(globalBytes));
  for (const order of orders) {
    device.emulator.write(out, new Uint8Array(globalBytes));
    const { grid, block, ...rest } = subject.launch(out);
    const report = device.launch("k", grid, block, [out], { fuel: 200_000, ...rest, ...order });
    const rules = report.findings.map(({ rule }) => rule);
    if (!more(rules)) return rules;
  }
  return [];
}

describe.each(globalSubjects)("$name", (subject) => {
  test("as it is shows nothing in any order", () => {
    const orders = [{ order: "eager" }, { order: "lazy" }, ...seeds] as const;
    expect(rulesOf(subject, subject.text, orders, (rules) => rules.length === 0)).toEqual([]);
  });

  test.each(subject.faults)("$fault", (fault) => {
    const wanted: readonly string[] = fault.finds;
    const found = rulesOf(
      subject,
      planted(subject, fault),
      seeds,
      (rules) => !rules.some((r) => wanted.includes(r)),
    );
    expect(found.length, "no seed shows it").toBeGreaterThan(0);
  });
});

test("docs/hazards/mutation.md says what was planted", () => {
  const page = readFileSync(new URL("../../../docs/hazards/mutation.md", import.meta.url), "utf8");
  expect(page).toContain(globalSection());
  expect(globalSubjects.reduce((n, { faults }) => n + faults.length, 0)).toBeGreaterThanOrEqual(40);
});
