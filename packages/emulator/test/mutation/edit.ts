/** Faults are edits of a kernel's body: where an instruction stands, what surrounds it, and how the body looks without it or with another. */
import {
  type AddressOperand,
  type Instruction,
  type IntegerOperand,
  type Operand,
  type PtxModule,
  parseModule,
  printModule,
  type RegisterOperand,
  type Statement,
} from "@tilewright/ptx";
import { value } from "../support.ts";

/** An instruction of a subject's only kernel, at its place in the body. */
export interface Site {
  readonly body: readonly Statement[];
  readonly at: number;
  readonly instruction: Instruction;
}

export function parse(text: string): PtxModule {
  return value(parseModule(text));
}

/** The body of the module's kernel. Throws where there are several kernels or none. */
export function bodyOf(module: PtxModule): readonly Statement[] {
  const bodies = module.items.flatMap((x) => (x.kind === "function" && x.body !== null ? [x.body] : []));
  const [body, ...more] = bodies;
  if (body === undefined || more.length > 0)
    throw new Error(`${bodies.length} kernels where one was expected`);
  return body;
}

/** The module's text with another body, and with the registers that faults use declared. */
export function withBody(module: PtxModule, body: readonly Statement[]): string {
  return printModule({
    ...module,
    items: module.items.map((x) =>
      x.kind === "function" && x.body !== null ? { ...x, body: [...scratch, ...body] } : x,
    ),
  });
}

export function sitesOf(body: readonly Statement[]): readonly Site[] {
  return body.flatMap((s, at) => (s.kind === "instruction" ? [{ body, at, instruction: s }] : []));
}

// ---------------------------------------------------------------- operands and instructions

/** Registers that no subject has. */
export const mutant = {
  word: { kind: "register", name: "%mutw", type: "b32" },
  wide: { kind: "register", name: "%mutd", type: "b64" },
  half: { kind: "register", name: "%muth", type: "b16" },
  /** True: `setp` on them is part of every use. */
  yes: { kind: "register", name: "%mutp", type: "pred" },
} as const satisfies Record<string, RegisterOperand>;

const scratch: readonly Statement[] = Object.values(mutant).map((r) => ({
  kind: "registers",
  type: r.type,
  vector: 1,
  names: [{ name: r.name, count: null }],
  location: null,
}));

export const integer = (n: number | bigint): IntegerOperand => ({ kind: "integer", value: BigInt(n) });
export const isInteger = (x: Operand | undefined): x is IntegerOperand => x?.kind === "integer";
export const isRegister = (x: Operand | undefined): x is RegisterOperand => x?.kind === "register";
export const isAddress = (x: Operand | undefined): x is AddressOperand => x?.kind === "address";

/** A new instruction; `mnemonic` is an opcode of one word and its modifiers. */
export function instruction(mnemonic: string, ...operands: readonly Operand[]): Instruction {
  const [opcode = "", ...modifiers] = mnemonic.split(".");
  return { kind: "instruction", mnemonic, opcode, modifiers, guard: null, operands, location: null };
}

/** The same instruction with one modifier for another; null where it does not have it. */
export function modified(i: Instruction, from: string, to: string | null): Instruction | null {
  if (!i.modifiers.includes(from)) return null;
  const modifiers = i.modifiers.flatMap((m) => (m === from ? (to === null ? [] : [to]) : [m]));
  return { ...i, modifiers, mnemonic: [i.opcode, ...modifiers].join(".") };
}

/** The same instruction with another operand at `k`. */
export const withOperand = (i: Instruction, k: number, operand: Operand): Instruction => ({
  ...i,
  operands: i.operands.map((x, j) => (j === k ? operand : x)),
});

/** Two operands, or elements of a vector operand, exchanged; null where they are equal or absent. */
export function exchanged<T extends { readonly kind: string }>(
  list: readonly T[],
  p: number,
  q: number,
): T[] | null {
  const [x, y] = [list[p], list[q]];
  if (x === undefined || y === undefined || JSON.stringify(x) === JSON.stringify(y)) return null;
  return list.map((z, k) => (k === p ? y : k === q ? x : z));
}

/** The index of the first operand of a kind; -1 without. */
export const operandOf = (i: Instruction, kind: Operand["kind"]): number =>
  i.operands.findIndex((x) => x.kind === kind);

/** The address operand with its offset moved by `bytes`; null without one. */
export function shifted(i: Instruction, bytes: number): Instruction | null {
  const k = operandOf(i, "address");
  const address = i.operands[k];
  return isAddress(address)
    ? withOperand(i, k, { ...address, offset: address.offset + BigInt(bytes) })
    : null;
}

// ---------------------------------------------------------------- bodies

/** The body with `instructions` in the site's place. */
export const replaced = (site: Site, ...instructions: readonly Statement[]): readonly Statement[] => [
  ...site.body.slice(0, site.at),
  ...instructions,
  ...site.body.slice(site.at + 1),
];

/** As `replaced`, passing null on. */
export const replacedBy = (site: Site, i: Instruction | null): readonly Statement[] | null =>
  i === null ? null : replaced(site, i);

/** The body without the statements at the places named. */
export const without = (body: readonly Statement[], ...places: readonly number[]): readonly Statement[] =>
  body.filter((_, k) => !places.includes(k));

/** The body with the statement at `from` moved behind the one at `to`, further down. */
export const movedDown = (body: readonly Statement[], from: number, to: number): readonly Statement[] => [
  ...body.slice(0, from),
  ...body.slice(from + 1, to + 1),
  ...body.slice(from, from + 1),
  ...body.slice(to + 1),
];

/** The first instruction behind the site that fits, with no label or branch on the way unless `across`; null without. */
export function following(site: Site, fits: (i: Instruction) => boolean, across = false): Site | null {
  for (let at = site.at + 1; at < site.body.length; at++) {
    const s = site.body[at];
    if (s?.kind === "instruction") {
      if (fits(s)) return { body: site.body, at, instruction: s };
      if (s.opcode === "bra" && !across) return null;
    } else if (s?.kind === "label" && !across) return null;
  }
  return null;
}

/** The nearest instruction before the site that writes a register as its first operand; null without. */
export function definition(site: Site, register: string): Site | null {
  for (let at = site.at - 1; at >= 0; at--) {
    const s = site.body[at];
    const first = s?.kind === "instruction" ? s.operands[0] : undefined;
    if (s?.kind === "instruction" && first?.kind === "register" && first.name === register)
      return { body: site.body, at, instruction: s };
  }
  return null;
}
