/** Tensor and bulk copies, byte for byte as an H200 does them: layouts, fills, roundings, reductions, and what it traps on. */
import { sha256 } from "@tilewright/core";
import { expect, test } from "vitest";
import { fixture, orders } from "./support.ts";
import { parseCase, Replay } from "./tma-replay.ts";

const cases = fixture("golden/tma-h200.txt")
  .trim()
  .split("\n")
  .map((line) => {
    const at = line.lastIndexOf(" ");
    return { line: line.slice(0, at), parsed: parseCase(line.slice(0, at)), outcome: line.slice(at + 1) };
  })
  .filter((c) => c.parsed.spec.interleave === "none");

test("memory after every case is the GPU's; what traps or hangs there is found here", () => {
  const replay = new Replay();
  const wrong: string[] = [];
  let compared = 0;
  cases.forEach(({ line, parsed, outcome }, k) => {
    const { report, image } = replay.run(parsed, orders[k % orders.length] ?? "eager", k);
    const rules = report.findings.map((f) => f.rule);
    if (outcome === "trap") {
      if (report.completed || !["H051", "H004"].includes(rules[0] ?? "")) wrong.push(`${line}: ${rules}`);
    } else if (outcome === "hang") {
      if (report.completed || rules[0] !== "H030") wrong.push(`${line}: ${rules}`);
    } else {
      compared += 1;
      if (rules.length > 0) wrong.push(`${line}: ${report.findings[0]?.message}`);
      else if (!sha256(image).startsWith(outcome)) wrong.push(`${line}: other bytes`);
    }
  });
  expect(wrong).toEqual([]);
  expect(compared).toBeGreaterThan(400);
});

test("one case in all orders and several seeds", () => {
  const replay = new Replay();
  const chosen = cases.filter((c) => c.outcome.length === 16).filter((_, k) => k % 40 === 0);
  for (const { parsed, outcome } of chosen)
    for (const order of orders)
      for (const seed of [1, 2, 3]) {
        const { report, image } = replay.run(parsed, order, seed);
        expect(report.findings).toEqual([]);
        expect(sha256(image).slice(0, 16)).toBe(outcome);
      }
  expect(chosen.length).toBeGreaterThan(8);
});
