/**
 * Registers that are only written under a predicate look to ptxas as if they kept what was in them before, from the kernel's start on: every such value of an
 * epilogue holds a register through the main loop (ptxas 13.0: gelu on tiles at the edge of a matrix spills 300 to 900 bytes). Here the first write of each register
 * becomes one that always happens; what has an effect or may fault (stores, atomics, loads) keeps its predicate.
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
 * The module with the first write of every register unconditional, where that changes nothing that can be seen: arithmetic on what is surely there loses its
 * predicate; of what reads memory the destinations become 0 before. In a loop over chunks that is before the loop, whose turns are too many for it: any loop, or
 * where blocks `stay`, and loop over tiles as well, one inside another.
 */
export const withWholeDefinitions = (module: PtxModule, stay: boolean): PtxModule => ({
  ...module,
  items: module.items.map((item) =>
    item.kind === "function" && item.body !== null ? { ...item, body: whole(item.body, stay) } : item,
  ),
});

function whole(body: readonly Statement[], stay: boolean): readonly Statement[] {
  const asked = registersUnderPredicates(body);
  if (asked.size === 0) return body;
  const defined = new Set<string>();
  const inner = chunkLoops(body, stay);
  const paths = new Paths();
  const adds = (name: string): boolean => asked.has(name) && !paths.has(name);
  /** What comes before the statement of this index. */
  const before = new Map<number, Instruction[]>();
  const made = body.map((statement, index): Statement => {
    if (statement.kind === "label") paths.meet(statement.name);
    if (statement.kind !== "instruction") return statement;
    // Nothing new, as of most: an accumulator is written once and then again and again.
    if (statement.guard === null && !statement.operands.some((operand) => names(operand, adds))) {
      paths.leave(statement);
      return statement;
    }
    const { form, operands } = bindInstruction(statement);
    const written = operands.flatMap(({ argument, operand }) =>
      argument.access === "write" ? registersOf(operand) : [],
    );
    const fresh = statement.guard === null ? [] : written.filter(({ name }) => !defined.has(name));
    for (const { name } of written) defined.add(name);
    if (statement.guard === null) paths.define(written);
    paths.leave(statement);
    if (fresh.length === 0) return statement;
    if (form.row.effect === "pure") {
      const read = operands.flatMap(({ argument, operand }) =>
        argument.access === "write" ? [] : registersOf(operand),
      );
      if (fresh.length < written.length || !paths.define(written, read)) return statement;
      return { ...statement, guard: null };
    }
    if (form.row.effect === "read") {
      const place = inner.find(([from, to]) => from < index && index < to)?.[0] ?? index;
      before.set(place, [...(before.get(place) ?? []), ...fresh.map(zero)]);
      paths.define(fresh);
    }
    return statement;
  });
  return made.flatMap((statement, index) => [...(before.get(index) ?? []), statement]);
}

/** Names of the registers of instructions with a predicate: what is written to others is nothing to them. */
const registersUnderPredicates = (body: readonly Statement[]): ReadonlySet<string> =>
  new Set(
    body.flatMap((statement) =>
      statement.kind === "instruction" && statement.guard !== null
        ? statement.operands.flatMap(registersOf).map(({ name }) => name)
        : [],
    ),
  );

const names = (operand: Operand, wanted: (name: string) => boolean): boolean =>
  operand.kind === "register" ? wanted(operand.name) : registersOf(operand).some(({ name }) => wanted(name));

/** Registers that every way to the statement at hand has written. */
class Paths {
  /** Null behind a jump. */
  #sure: Set<string> | null = new Set();
  /** The same where branches to a label further on leave. */
  readonly #leaving = new Map<string, Set<string>[]>();

  /** Whether every way to here has written the register. */
  has(name: string): boolean {
    return this.#sure?.has(name) ?? false;
  }

  /** The registers are written here, if those that they are computed from have been on every way; whether that is so. */
  define(written: readonly Reg<ScalarType>[], from: readonly Reg<ScalarType>[] = []): boolean {
    const sure = this.#sure;
    if (sure === null || from.some(({ name }) => !sure.has(name))) return false;
    for (const { name } of written) sure.add(name);
    return true;
  }

  /** A way to a label that lies ahead, or the end of one. (Ways back come with all that their label had.) */
  leave({ opcode, operands: [place], guard }: Instruction): void {
    if (opcode === "bra" && place?.kind === "symbol" && this.#sure !== null) {
      const others = this.#leaving.get(place.name) ?? [];
      this.#leaving.set(place.name, [...others, new Set(this.#sure)]);
    }
    if (guard === null && ends.has(opcode)) this.#sure = null;
  }

  /** A label, where what all ways to it have written is sure. */
  meet(label: string): void {
    const ways = [...(this.#leaving.get(label) ?? []), ...(this.#sure === null ? [] : [this.#sure])];
    const [first, ...others] = ways;
    this.#sure = new Set([...(first ?? [])].filter((name) => others.every((way) => way.has(name))));
  }
}

/** Instructions behind which nothing follows. */
const ends: ReadonlySet<string> = new Set(["bra", "ret", "exit"]);

/** Loops, of persistent CTAs those inside another one, from their label to the branch back, innermost first. */
function chunkLoops(
  body: readonly Statement[],
  stay: boolean,
): readonly (readonly [from: number, to: number])[] {
  const labels = new Map(body.flatMap((s, i) => (s.kind === "label" ? [[s.name, i] as const] : [])));
  const loops = body.flatMap((s, to): (readonly [number, number])[] => {
    if (s.kind !== "instruction" || s.opcode !== "bra") return [];
    const [place] = s.operands;
    const from = place?.kind === "symbol" ? labels.get(place.name) : undefined;
    return from !== undefined && from < to ? [[from, to]] : [];
  });
  return loops
    .filter(([from, to]) => !stay || loops.some(([f, t]) => f < from && to < t))
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
    case "not":
      return [operand.operand];
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
