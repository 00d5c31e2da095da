/** From request to PTX text. Hoisted imports: the module runner's getters would be measured otherwise. */
import { createCompiler } from "@tilewright/ir";
import { test } from "vitest";
import { simt } from "../src/backend.ts";
import { problemOf, targetOf } from "./support/cases.ts";

const compiler = createCompiler({ backends: [simt] });
const target = targetOf("sm_70");

test("compile a 128 x 128 tile", async ({ bench }) => {
  const problem = problemOf({ m: 4096, n: 4096, k: 4096, dtype: "f32" });
  await bench("aligned", () => void compiler.compile({ problem, target })).run();
  const ragged = problemOf({ m: 4095, n: 4097, k: 4099, dtype: "f32" });
  await bench("ragged", () => void compiler.compile({ problem: ragged, target })).run();
});
