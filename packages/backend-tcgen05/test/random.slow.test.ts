/** Random legal schedules: all of them assemble without spills; some of them run in many orders. With TILEWRIGHT_SLOW=1. */
import { execFileSync, spawnSync } from "node:child_process";
import { type Case, checkCase } from "@tilewright/conformance";
import {
  createCompiler,
  createRandom,
  formatDiagnostic,
  type Random,
  type Schedule,
  type Target,
} from "@tilewright/ir";
import { openDevice } from "@tilewright/runtime";
import { describe, expect, test } from "vitest";
import { tcgen05 } from "../src/index.ts";
import { problem, schedule, target } from "./support/cases.ts";

const slow = process.env.TILEWRIGHT_SLOW === "1";

const pick = <T>(random: Random, list: readonly [T, ...T[]]): T =>
  list[random.integer(0, list.length - 1)] ?? list[0];

const requests: readonly [Record<string, unknown>, ...Record<string, unknown>[]] = [
  { dtype: "f16" },
  { dtype: "bf16", a: { layout: "col" }, b: { layout: "row" } },
  { dtype: "tf32" },
  { dtype: "e4m3" },
  { dtype: "f16", beta: 0.5, c: { dtype: "f16" }, epilogue: [{ kind: "bias", along: "n", dtype: "f32" }] },
];

/** Schedules until one is legal. */
function legal(random: Random, of: ReturnType<typeof problem>, on: Target): Schedule {
  for (;;) {
    const cta = pick(random, [1, 2]);
    const n = pick(random, [16, 32, 64, 128, 256]);
    const k = pick(random, [32, 64, 128]);
    const lanes = 64 * pick(random, [1, 2, 2, 4]) * cta;
    const swap = pick(random, ["off", "off", "on"]);
    const text = [
      `tile=${swap === "on" ? `${n}x${lanes}` : `${lanes}x${n}`}x${k} cta=${cta} swap=${swap} cluster=${pick(random, ["1x1", "1x1", "2x1", "1x2", "2x2"])}`,
      `stages=${random.integer(1, 5)} acc=${random.integer(1, 3)} sched=${pick(random, ["tiles", "persistent", "atomic", "clc"])}`,
      `swizzle=${pick(random, ["128B", "64B", "32B", "none"])} raster=${pick(random, ["row", "col", "grouped:2", "snake:2", "hilbert"])}`,
      `load=${pick(random, [8, 16, 32])} early=${pick(random, ["on", "off"])} epi=${pick(random, ["tma", "direct"])} staging=${random.integer(1, 3)} store=${pick(random, [1, 4, 8])} ahead=${random.integer(1, 3)}`,
    ].join(" ");
    const made = schedule(text);
    if (tcgen05.check(of, made, on).length === 0) return made;
  }
}

const hasPtxas = ((): boolean => {
  try {
    execFileSync("ptxas", ["--version"], { stdio: "pipe" });
    return true;
  } catch {
    return false;
  }
})();

describe.skipIf(!slow)("random schedules", () => {
  const compiler = createCompiler({ backends: [tcgen05] });

  test.skipIf(!hasPtxas)(
    "300 assemble for sm_100a and sm_103a without spills or warnings",
    { timeout: 3_600_000 },
    () => {
      const random = createRandom(11);
      for (let i = 0; i < 300; i++) {
        const arch = i % 2 === 0 ? "sm_100a" : "sm_103a";
        const on = target(arch);
        const of = problem({
          ...pick(random, requests),
          m: random.integer(1, 600),
          n: 8 * random.integer(1, 60),
          k: 16 * random.integer(1, 40),
          ...(i % 3 === 0 ? {} : { m: 8 * random.integer(1, 80) }),
        });
        const verdict = tcgen05.accepts(of, on);
        if (!verdict.ok) continue;
        const made = compiler.compile({
          problem: of,
          target: on,
          schedule: legal(random, of, on),
          verify: "none",
        });
        if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
        const done = spawnSync("ptxas", [`-arch=${arch}`, "-v", "-", "-o", "/dev/null"], {
          input: made.value.ptx,
          encoding: "utf8",
        });
        const said = `${done.stdout}${done.stderr}`;
        expect(done.status, said).toBe(0);
        expect(said).toContain("0 bytes spill stores, 0 bytes spill loads");
        expect(said).not.toMatch(/warning|C75\d\d/);
      }
    },
  );

  test("20 seeds of the random order", { timeout: 3_600_000 }, async () => {
    const device = await openDevice({ kind: "emulator", arch: "sm_100a" });
    if (!device.ok) throw new Error(device.error.map(formatDiagnostic).join("\n"));
    const random = createRandom(5);
    const on = target("sm_100a");
    for (let seed = 1; seed <= 20; seed++) {
      const of = problem({
        ...pick(random, requests),
        m: 8 * random.integer(1, 60),
        n: 8 * random.integer(1, 20),
        k: 16 * random.integer(1, 16),
      });
      if (!tcgen05.accepts(of, on).ok) continue;
      const subject: Case = { problem: of, schedule: legal(random, of, on), target: on, seed };
      expect(checkCase(tcgen05, subject, { emulator: device.value })).toEqual([]);
    }
    device.value.close();
  });
});
