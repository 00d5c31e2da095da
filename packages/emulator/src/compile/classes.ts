/**
 * How each register is represented. nvcc declares floats `.b32`, so declarations say little: a register that floating-point
 * arithmetic touches more often than integer instructions is a number, every other one is an integer. Registers that are
 * only copied stay integers, which keeps every bit of data that merely passes through.
 */
import type { Kernel, Register } from "../load/types.ts";

/** Set `cls` of every register of the kernel. */
export function chooseClasses(kernel: Kernel): void {
  const score = new Int32Array(kernel.registers.length);
  const links: (readonly [Register, Register])[] = [];
  for (const instruction of kernel.instructions) {
    for (const { register, as } of instruction.votes)
      score[register.id] = (score[register.id] ?? 0) + (as === "float" ? 1 : -1);
    links.push(...instruction.links);
  }
  // A register without an opinion takes its neighbour's, so that moves between them need no conversion.
  for (let round = 0; round < 4; round++) {
    let changed = false;
    for (const [a, b] of links) {
      const x = score[a.id] ?? 0;
      const y = score[b.id] ?? 0;
      if (x === 0 && y > 0) score[a.id] = 1;
      else if (y === 0 && x > 0) score[b.id] = 1;
      else continue;
      changed = true;
    }
    if (!changed) break;
  }
  for (const register of kernel.registers) {
    const float = (score[register.id] ?? 0) > 0;
    if (register.bits === 64) register.cls = float ? "f64" : "i64";
    else register.cls = float && register.bits === 32 ? "f32" : "i32";
  }
}
