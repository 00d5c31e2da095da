/**
 * Processor time of the products in products.ts: `node --conditions=@tilewright/source test/measure.ts [NAME [SIZE [REPEATS]]]` in
 * packages/emulator. One launch to warm up, then repeated ones, with all checks and with none in turn; the least time in user
 * mode counts, which other work on the machine changes least.
 */
import { products } from "./products.ts";

const [only = "", at = "0", times = "5"] = process.argv.slice(2);
const names = ["all", "none"] as const;

/** Milliseconds in user mode, and on the clock. */
function timed(run: () => void): readonly [number, number] {
  const [cpu, clock] = [process.cpuUsage(), performance.now()];
  run();
  return [process.cpuUsage(cpu).user / 1000, performance.now() - clock];
}

for (const [name, make, sizes] of products)
  for (const size of sizes) {
    if (!name.includes(only) || (Number(at) > 0 && Number(at) !== size)) continue;
    const run = make(size);
    const first = timed(() => run("all"));
    run("none");
    const rounds = Array.from({ length: Number(times) }, () =>
      names.map((checks) => timed(() => run(checks))),
    );
    const least = (which: 0 | 1, what: 0 | 1): number =>
      Math.min(...rounds.map((round) => round[which]?.[what] ?? 0));
    const show = (ms: number): string => ms.toFixed(0).padStart(6);
    console.log(
      `${name.padEnd(30)} ${String(size).padStart(4)}^3: first${show(first[0])}; user ms all${show(least(0, 0))} none${show(least(1, 0))} (${(least(0, 0) / least(1, 0)).toFixed(2)}); clock${show(least(0, 1))}${show(least(1, 1))}`,
    );
  }
