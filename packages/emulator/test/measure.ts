/**
 * Processor time of the products in products.ts: node --conditions=@tilewright/source test/measure.ts [name] [size] [repeats]. Prints the least time
 * in user mode and the least time on the clock, with all checks and without; the two alternate. On a machine that others
 * use, processor time is what can be compared.
 */
import { products } from "./products.ts";

const [only = "", at = "0", times = "5"] = process.argv.slice(2);
for (const [name, make, sizes] of products)
  for (const size of sizes) {
    if (!name.includes(only) || (Number(at) > 0 && Number(at) !== size)) continue;
    const run = make(size);
    const least = { all: [Infinity, Infinity], none: [Infinity, Infinity] };
    for (let k = 0; k <= Number(times); k++)
      for (const checks of ["all", "none"] as const) {
        const [cpu, clock] = [process.cpuUsage(), performance.now()];
        run(checks);
        const user = process.cpuUsage(cpu).user / 1000;
        const wall = performance.now() - clock;
        if (k === 0) console.log(`  first ${checks} ${user.toFixed(0)}`);
        else {
        least[checks][0] = Math.min(least[checks][0], user);
        least[checks][1] = Math.min(least[checks][1], wall);
        }
      }
    console.log(name, size, least, (least.all[0] / least.none[0]).toFixed(2));
  }
