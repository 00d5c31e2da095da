/** Time of a 512 x 512 x 512 fp32 kernel (146 million lane-instructions), cold and warm, with and without checks. */
import { test } from "vitest";
import { fixture, machine } from "./support.ts";

const source = fixture("golden/simt_f32.ptx");

function gemm(size: number, device = machine(source)) {
  const data = Float32Array.from({ length: size * size }, (_, k) => ((k * 7919) % 1000) / 1000 - 0.5);
  const [a, b, c] = [device.put(data), device.put(data), device.blank(size * size * 4)];
  return (checks: "all" | "none"): void => {
    const report = device.launch("simt_f32", [size / 128, size / 128, 1], 256, [a, b, c, size, size, size], {
      checks,
    });
    if (!report.completed || report.findings.length > 0) throw new Error("the kernel is not clean");
  };
}

const few = { iterations: 5, time: 0 };

test("simt_f32", { timeout: 120_000 }, async ({ bench }) => {
  const warm = gemm(512);
  await bench("512^3, all checks", () => warm("all")).run(few);
  await bench("512^3, no checks", () => warm("none")).run(few);
  await bench("128^3, all checks, module loaded anew", () => gemm(128)("all")).run(few);
  await bench("load 700 instructions", () => void machine(source)).run(few);
});
