/** What a statement came to: its instructions of PTX and the registers that they are the first to write. */

export interface StatementCounts {
  readonly instructions: number;
  /** By opcode's first word, the most frequent first. */
  readonly opcodes: readonly (readonly [name: string, count: number])[];
  /** 32-bit words of virtual registers, and predicates. */
  readonly registers: number;
  readonly predicates: number;
}

const declaration = /^\s*\.reg\s+\.(\w+)\s+(%[\w$]*?)(?:<(\d+)>)?\s*;/;
const instruction = /^\s*(?:@!?%\w+\s+)?([a-z][\w]*(?:\.[\w:]+)*)\s*([^;]*);/;

/** Counts by line of the program (from 1). `ofPtx`: for each line of PTX the line that it was made for, 0 for none. */
export function statementCounts(ptx: string, ofPtx: readonly number[]): ReadonlyMap<number, StatementCounts> {
  const lines = ptx.split("\n");
  // `%v<4>` declares %v0 to %v3.
  const types = new Map<string, string>();
  for (const line of lines) {
    const [, type = "", name = "", count] = declaration.exec(line) ?? [];
    if (name === "") continue;
    if (count === undefined) types.set(name, type);
    else for (let k = 0; k < Number(count); k++) types.set(`${name}${k}`, type);
  }
  const counts = new Map<number, { opcodes: Map<string, number>; registers: number; predicates: number }>();
  lines.forEach((line, i) => {
    const [, opcode = "", operands = ""] = instruction.exec(line) ?? [];
    const of = ofPtx[i] ?? 0;
    if (opcode === "" || of === 0) return;
    const row = counts.get(of) ?? { opcodes: new Map<string, number>(), registers: 0, predicates: 0 };
    counts.set(of, row);
    const [name = ""] = opcode.split(".");
    row.opcodes.set(name, (row.opcodes.get(name) ?? 0) + 1);
    // Whichever instruction names a register first writes it.
    for (const [register] of operands.matchAll(/%[\w$]+/g)) {
      const type = types.get(register);
      if (type === undefined) continue;
      types.delete(register);
      if (type === "pred") row.predicates += 1;
      else row.registers += type.endsWith("64") ? 2 : 1;
    }
  });
  return new Map(
    [...counts].map(([line, { opcodes, registers, predicates }]) => [
      line,
      {
        ...{ registers, predicates },
        instructions: [...opcodes.values()].reduce((sum, count) => sum + count, 0),
        opcodes: [...opcodes].toSorted((a, b) => b[1] - a[1]),
      },
    ]),
  );
}
