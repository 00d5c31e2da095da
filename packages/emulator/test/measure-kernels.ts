/**
 * What checks cost on the kernels of kernels.ts, in user time: `node --conditions=@tilewright/source test/measure-kernels.ts [NAME [ROUNDS]]` in
 * packages/emulator. Launches without checks, with all but the rules of global memory, with all, and in random order take turns; the least time of
 * each counts.
 */
import { globalRules } from "../src/checkers/rules.ts";
import { createEmulator } from "../src/index.ts";
import { kernels } from "./kernels.ts";

const [only = "", rounds = "8"] = process.argv.slice(2);
const ways = {
  none: { checks: "none" },
  local: { checks: "all", disable: globalRules },
  all: { checks: "all" },
  random: { checks: "all", order: "random", seed: 1 },
} as const;
const names = Object.keys(ways) as (keyof typeof ways)[];

/** Milliseconds of a launch, of as many as the clock of processor time can tell. */
function timed(run: () => void): number {
  const cpu = process.cpuUsage();
  for (let n = 1; ; n++) {
    run();
    const ms = process.cpuUsage(cpu).user / 1000;
    if (ms > 25) return ms / n;
  }
}

const chosen = kernels.filter(({ name }) => name.includes(only));
const needed = kernels.filter((k) => chosen.includes(k) || chosen.some(({ beside }) => beside === k.name));
const rows = needed.map((kernel) => {
  const best = { none: 1e9, local: 1e9, all: 1e9, random: 1e9 };
  return { ...kernel, run: kernel.on(createEmulator), best };
});
for (let round = 0; round < Number(rounds); round++)
  for (const { run, best } of rows)
    for (const way of names)
      best[way] = Math.min(
        best[way],
        timed(() => run(ways[way])),
      );

for (const { name, beside, best } of rows) {
  const other = rows.find((row) => row.name === beside)?.best;
  const ratio = (way: keyof typeof ways): string => (best[way] / (other?.[way] ?? 1)).toFixed(2);
  console.log(
    `${name.padEnd(24)}${names.map((way) => `${way}${best[way].toFixed(1).padStart(7)}`).join("  ")} ms; all/local ${(best.all / best.local).toFixed(2)}, all/none ${(best.all / best.none).toFixed(2)}${other === undefined ? "" : `; of ${beside}: ${ratio("all")}, in random order ${ratio("random")}`}`,
  );
}
