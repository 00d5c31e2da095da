/**
 * Processor time of the products in products.ts: `node --conditions=@tilewright/source test/measure.ts [NAME [SIZE [REPEATS]]]` in
 * packages/emulator. One launch to warm up, then repeated ones, with all checks and with none in turn; the least time in user
 * mode counts, which other work on the machine changes least. At the end what two threads gain on the clock, for which the
 * machine has to be quiet.
 */
import { startThreads } from "./parallel/threads.ts";
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
    const product = make(size);
    const first = timed(() => product.launch("all"));
    product.launch("none");
    const rounds = Array.from({ length: Number(times) }, () =>
      names.map((checks) => timed(() => product.launch(checks))),
    );
    const least = (which: 0 | 1, what: 0 | 1): number =>
      Math.min(...rounds.map((round) => round[which]?.[what] ?? 0));
    const show = (ms: number): string => ms.toFixed(0).padStart(6);
    console.log(
      `${name.padEnd(30)} ${String(size).padStart(4)}^3: first${show(first[0])}; user ms all${show(least(0, 0))} none${show(least(1, 0))} (${(least(0, 0) / least(1, 0)).toFixed(2)}); clock${show(least(0, 1))}${show(least(1, 1))}`,
    );
  }

const threads = await startThreads(2);
for (const [name, make, sizes] of products) {
  const size = Math.max(...sizes);
  if (!name.includes(only) || name.startsWith("tcgen05")) continue;
  const product = make(size, threads.ports);
  const clock = async (run: () => unknown): Promise<number> => {
    const from = performance.now();
    await run();
    return performance.now() - from;
  };
  const rounds: (readonly [number, number])[] = [];
  for (let k = 0; k <= Number(times); k++) {
    const alone = await clock(() => product.launch("all"));
    rounds.push([alone, await clock(() => product.divided("all"))]);
  }
  const [alone, divided] = ([0, 1] as const).map((which) => Math.min(...rounds.map((round) => round[which])));
  console.log(
    `${name.padEnd(30)} ${size}^3: one thread ${alone?.toFixed(0)} ms, two ${divided?.toFixed(0)} ms`,
  );
}
await threads.close();
