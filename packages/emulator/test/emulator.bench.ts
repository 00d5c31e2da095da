/**
 * Times of whole matrix products, with and without checks, and of fifty small kernel runs in one process.
 * `npx vitest bench --project unit packages/emulator`; nothing here is asserted but that the runs are clean. `measure.ts` has the
 * same products by processor time, for machines that do other work besides.
 */
import { test } from "vitest";
import { createEmulator } from "../src/index.ts";
import { products, simt, simtText } from "./products.ts";

const few = { iterations: 3, time: 0, warmupIterations: 1 };

for (const [name, make, sizes] of products)
  test(name, { timeout: 300_000 }, async ({ bench }) => {
    for (const size of sizes) {
      const product = make(size);
      await bench(`${size}^3, all checks`, () => product.launch("all")).run(few);
      await bench(`${size}^3, no checks`, () => product.launch("none")).run(few);
    }
  });

test("small runs", { timeout: 300_000 }, async ({ bench }) => {
  // A different kernel text each time, so that each is loaded and compiled anew, as tests over many schedules do.
  await bench("fifty runs at 128^3, module loaded anew, all checks", () => {
    for (let k = 0; k < 50; k++) simt(128, [], `${simtText}\n// ${k}\n`).launch("all");
  }).run({ iterations: 1, time: 0, warmupIterations: 0 });
  await bench("load 700 instructions", () => void createEmulator().load(simtText)).run(few);
});
