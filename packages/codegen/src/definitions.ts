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
 * predicate; of what reads memory the destinations become 0 before. In a loop inside another one (the chunks of a tile) that is before the inner
 * loop, whose turns are too many for it.
 */
export const withWholeDefinitions = (module: PtxModule): PtxModule => ({
  ...module,
  items: module.items.map((item) =>
    item.kind === "function" && item.body !== null ? { ...item, body: whole(item.body) } : item,
  ),
});

function whole(body: readonly Statement[]): readonly Statement[] {
  const defined = new Set<string>();
  const inner = innerLoops(body);
  /** What comes before the statement of this index. */
  const before = new Map<number, Instruction[]>();
  const made = body.map((statement, index): Statement => {
    if (statement.kind !== "instruction") return statement;
    const { form, operands } = bindInstruction(statement);
    const written = operands.flatMap(({ argument, operand }) =>
      argument.access === "write" ? registersOf(operand) : [],
    );
    const fresh = written.filter((register) => !defined.has(register.name));
    for (const register of written) defined.add(register.name);
    if (statement.guard === null || fresh.length === 0) return statement;
    if (form.row.effect === "pure") return { ...statement, guard: null };
    if (form.row.effect === "read") {
      const place = inner.find(([from, to]) => from < index && index < to)?.[0] ?? index;
      before.set(place, [...(before.get(place) ?? []), ...fresh.map(zero)]);
    }
    return statement;
  });
  return made.flatMap((statement, index) => [...(before.get(index) ?? []), statement]);
}

/** Loops that stand inside another one, from their label to the branch back, innermost first. */
function innerLoops(body: readonly Statement[]): readonly (readonly [from: number, to: number])[] {
  const labels = new Map(body.flatMap((s, i) => (s.kind === "label" ? [[s.name, i] as const] : [])));
  const loops = body.flatMap((s, to): (readonly [number, number])[] => {
    if (s.kind !== "instruction" || s.opcode !== "bra") return [];
    const [place] = s.operands;
    const from = place?.kind === "symbol" ? labels.get(place.name) : undefined;
    return from !== undefined && from < to ? [[from, to]] : [];
  });
  return loops
    .filter(([from, to]) => loops.some(([f, t]) => f < from && to < t))
    .sort(([a, b], [c, d]) => b - a - (d - c));
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
