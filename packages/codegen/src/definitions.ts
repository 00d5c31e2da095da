/**
 * Registers that are only written under a predicate look to ptxas as if they kept what an earlier turn of a loop left in them: in blocks that
 * loop over tiles every such value of the epilogue would hold a register through the whole kernel. Here the first write of each register
 * becomes one that always happens.
 */
import {
  bindInstruction,
  type Instruction,
  imm,
  makeInstruction,
  type Operand,
  type PtxModule,
  type Reg,
  type ScalarType,
  type Statement,
} from "@tilewright/ptx";

/**
 * The module with the first write of every register unconditional, where that changes nothing that can be seen: arithmetic loses its
 * predicate; of what reads memory the destinations become 0 before.
 */
export const withWholeDefinitions = (module: PtxModule): PtxModule => ({
  ...module,
  items: module.items.map((item) =>
    item.kind === "function" && item.body !== null ? { ...item, body: whole(item.body) } : item,
  ),
});

function whole(body: readonly Statement[]): readonly Statement[] {
  const defined = new Set<string>();
  return body.flatMap((statement): readonly Statement[] => {
    if (statement.kind !== "instruction") return [statement];
    const { form, operands } = bindInstruction(statement);
    const written = operands.flatMap(({ argument, operand }) =>
      argument.access === "write" ? registersOf(operand) : [],
    );
    const fresh = written.filter((register) => !defined.has(register.name));
    for (const register of written) defined.add(register.name);
    if (statement.guard === null || fresh.length === 0) return [statement];
    if (form.row.effect === "pure") return [{ ...statement, guard: null }];
    return form.row.effect === "read" ? [...fresh.map(zero), statement] : [statement];
  });
}

function registersOf(operand: Operand): readonly Reg<ScalarType>[] {
  switch (operand.kind) {
    case "register":
      return [operand];
    case "vector":
      return operand.elements.flatMap(registersOf);
    case "pair":
      return [...registersOf(operand.first), ...registersOf(operand.second)];
    default:
      return [];
  }
}

/** Bits of a register that memory is read into. */
const untyped: Readonly<Partial<Record<ScalarType, string>>> = {
  f32: "b32",
  f16x2: "b32",
  bf16x2: "b32",
  f16: "b16",
  bf16: "b16",
  f64: "b64",
};

const zero = (register: Reg<ScalarType>): Instruction =>
  makeInstruction(`mov.${untyped[register.type] ?? register.type}`, [register, imm(0)]);
