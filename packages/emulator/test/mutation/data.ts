/** Faults in what is moved and computed: descriptors, addresses, coordinates, fragments, registers, instructions left out. */
import type { Instruction, Operand, Statement } from "@tilewright/ptx";
import {
  exchanged,
  instruction,
  integer,
  isInteger,
  isRegister,
  modified,
  mutant,
  replaced,
  replacedBy,
  type Site,
  shifted,
  withOperand,
} from "./edit.ts";
import { early, type Mutator, races, tensorOrder, uneven } from "./mutator.ts";

const dropped = (site: Site): readonly Statement[] => replaced(site);

/** A register operand with some of its bits inverted, on the way to the instruction. */
function inverted(site: Site, at: number, mask: bigint): readonly Statement[] | null {
  const operand = site.instruction.operands[at];
  if (!isRegister(operand)) return null;
  const [to, mnemonic] =
    operand.type === "b64" ? ([mutant.wide, "xor.b64"] as const) : ([mutant.word, "xor.b32"] as const);
  return replaced(
    site,
    instruction(mnemonic, to, operand, integer(mask)),
    withOperand(site.instruction, at, to),
  );
}

/** Elements `p` and `q` of the vector operand at `at` exchanged. */
function swapped(site: Site, at: number, p: number, q: number): readonly Statement[] | null {
  const operand = site.instruction.operands[at];
  if (operand?.kind !== "vector") return null;
  const elements = exchanged(operand.elements, p, q);
  return elements === null
    ? null
    : replaced(site, withOperand(site.instruction, at, { ...operand, elements }));
}

const inShared = (i: Instruction): boolean => i.modifiers.some((m) => m.startsWith("shared"));
const inGlobal = (i: Instruction): boolean => i.modifiers.includes("global");
const accessBytes = (i: Instruction): number =>
  4 * Number(i.modifiers.find((m) => /^v[248]$/.test(m))?.slice(1) ?? 1);

/** What a wrong place in shared memory runs into. */
const misplaced = [
  ...races,
  ...early,
  "H001",
  "H004",
  "H006",
  "H033",
  "H042",
  "H062",
  "H073",
  "numbers",
] as const;

const descriptor = (fault: string, mask: bigint, finds: Mutator["finds"]): readonly Mutator[] =>
  (["A", "B"] as const).map((side, k) => ({
    fault: `${fault} of ${side}`,
    class: "matrix descriptor",
    on: ["wgmma.mma_async", "tcgen05.mma"],
    edit: (site) => inverted(site, 1 + k, mask),
    finds,
    most: 1,
  }));

const descriptors: readonly Mutator[] = [
  ...descriptor("start address 128 bytes off in the descriptor", 8n, misplaced),
  ...descriptor("start address a quarter of memory off in the descriptor", 1n << 12n, misplaced),
  ...descriptor("stride 0 in place of 1024 in the descriptor", 64n << 32n, misplaced),
  ...descriptor("base offset 1 in the descriptor", 1n << 49n, misplaced),
  ...descriptor("a reserved bit set in the descriptor", 1n << 15n, ["H067", "H071"]),
  ...descriptor("version bits flipped in the descriptor", 1n << 46n, ["H067", "H071"]),
  ...descriptor("the top bit of the swizzle mode flipped in the descriptor", 1n << 63n, [
    ...misplaced,
    "H071",
    "H067",
  ]),
  ...descriptor("the next bit of the swizzle mode flipped in the descriptor", 1n << 62n, [
    ...misplaced,
    "H071",
    "H067",
  ]),
];

const field = (fault: string, mask: bigint, finds: Mutator["finds"]): Mutator => ({
  fault,
  class: "instruction descriptor",
  on: ["tcgen05.mma"],
  edit: (site) => inverted(site, 3, mask),
  finds,
  most: 1,
});

const instructionDescriptors: readonly Mutator[] = [
  field("sparsity asked for in the instruction descriptor", 1n << 2n, ["H070", "H072"]),
  field("a reserved bit set in the instruction descriptor", 1n << 6n, ["H070"]),
  field("f16 accumulators in the instruction descriptor", 1n << 4n, ["H066", "H081", "H083", "numbers"]),
  field("another type of A in the instruction descriptor", 1n << 7n, ["H072", "numbers"]),
  field("another type of B in the instruction descriptor", 1n << 10n, ["H072", "numbers"]),
  field("A negated in the instruction descriptor", 1n << 13n, ["numbers"]),
  field("A transposed in the instruction descriptor", 1n << 15n, ["H071", "H072", "H073", "numbers"]),
  field("B transposed in the instruction descriptor", 1n << 16n, ["H071", "H072", "H073", "numbers"]),
  field("N one step more in the instruction descriptor", 1n << 17n, ["H072", "H080", "numbers"]),
  field("N halved in the instruction descriptor", 48n << 17n, ["H072", "H080", "H081", "numbers"]),
  field("another M in the instruction descriptor", 12n << 24n, ["H072", "H080", "H074", "numbers"]),
];

const coordinates = (
  site: Site,
  change: (list: readonly Operand[]) => readonly Operand[] | null,
  before: (list: readonly Operand[]) => readonly Statement[] = () => [],
): readonly Statement[] | null => {
  const at = site.instruction.operands.findIndex((x) => x.kind === "tensor");
  const operand = site.instruction.operands[at];
  if (operand?.kind !== "tensor") return null;
  const list = change(operand.coordinates);
  return list === null
    ? null
    : replaced(
        site,
        ...before(operand.coordinates),
        withOperand(site.instruction, at, { ...operand, coordinates: list }),
      );
};

const moved =
  (axis: (rank: number) => number, by: number) =>
  (site: Site): readonly Statement[] | null =>
    coordinates(
      site,
      (list) => list.map((x, k) => (k === axis(list.length) ? mutant.word : x)),
      (list) => {
        const old = list[axis(list.length)];
        return old === undefined ? [] : [instruction("add.s32", mutant.word, old, integer(by))];
      },
    );

const boxes: readonly Mutator[] = [
  {
    fault: "one element further along K",
    class: "tensor map and coordinates",
    on: ["cp.async.bulk.tensor"],
    edit: moved(() => 0, 1),
    finds: ["numbers", "H051"],
  },
  {
    fault: "one row further",
    class: "tensor map and coordinates",
    on: ["cp.async.bulk.tensor"],
    edit: moved((rank) => rank - 1, 1),
    finds: ["numbers", "H051"],
    most: 3,
  },
  {
    fault: "coordinates exchanged",
    class: "tensor map and coordinates",
    on: ["cp.async.bulk.tensor"],
    edit: (site) => coordinates(site, (list) => exchanged(list, 0, list.length - 1)),
    finds: ["numbers", "H051"],
    most: 3,
  },
  {
    fault: "another map's box",
    class: "tensor map and coordinates",
    on: ["cp.async.bulk.tensor"],
    edit: (site) => {
      const at = site.instruction.operands.findIndex((x) => x.kind === "tensor");
      const operand = site.instruction.operands[at];
      if (operand?.kind !== "tensor" || operand.base.kind !== "register") return null;
      const bases = site.body.flatMap((s) =>
        s.kind === "instruction" && s.opcode === "cp.async.bulk.tensor"
          ? s.operands.flatMap((x) => (x.kind === "tensor" && x.base.kind === "register" ? [x.base] : []))
          : [],
      );
      const { name } = operand.base;
      const other = bases.find((x) => x.name !== name);
      return other === undefined
        ? null
        : replaced(site, withOperand(site.instruction, at, { ...operand, base: other }));
    },
    finds: ["numbers", "H030", "H051", "H034", "H041", "H001", ...early, ...races],
    most: 2,
  },
];

const addresses: readonly Mutator[] = [
  {
    fault: "a copy lands 1024 bytes on",
    class: "address",
    on: ["cp.async.bulk.tensor", "cp.async"],
    edit: (site) => replacedBy(site, shifted(site.instruction, 1024)),
    finds: [...misplaced, ...uneven, "H040"],
    most: 2,
  },
  {
    fault: "a copy lands 16 bytes on",
    class: "address",
    on: ["cp.async.bulk.tensor", "cp.async"],
    edit: (site) => replacedBy(site, shifted(site.instruction, 16)),
    finds: [...misplaced, "H051", "H053"],
    most: 2,
  },
  {
    fault: "a matrix row 128 bytes on",
    class: "address",
    on: ["ldmatrix", "stmatrix"],
    edit: (site) => replacedBy(site, shifted(site.instruction, 128)),
    finds: misplaced,
    most: 2,
  },
  {
    fault: "a matrix row 2 bytes on",
    class: "address",
    on: ["ldmatrix", "stmatrix"],
    edit: (site) => replacedBy(site, shifted(site.instruction, 2)),
    finds: ["H004"],
    most: 1,
  },
  {
    fault: "a shared access one vector on",
    class: "address",
    on: ["ld", "st"],
    edit: (site) =>
      inShared(site.instruction)
        ? replacedBy(site, shifted(site.instruction, accessBytes(site.instruction)))
        : null,
    finds: [...misplaced, "H080", "H081", "H087", "H089"],
    most: 3,
  },
  {
    fault: "a global access one vector on",
    class: "address",
    on: ["ld", "st"],
    edit: (site) =>
      inGlobal(site.instruction)
        ? replacedBy(site, shifted(site.instruction, accessBytes(site.instruction)))
        : null,
    finds: ["numbers", "H001", "H005"],
    most: 2,
  },
  {
    fault: "a global access misaligned",
    class: "address",
    on: ["ld", "st"],
    edit: (site) => (inGlobal(site.instruction) ? replacedBy(site, shifted(site.instruction, 2)) : null),
    finds: ["H004"],
    most: 1,
  },
  {
    fault: "the mbarrier of the stage before",
    class: "address",
    on: ["mbarrier.arrive", "mbarrier.try_wait.parity", "mbarrier.arrive.expect_tx", "tcgen05.commit"],
    edit: (site) => replacedBy(site, shifted(site.instruction, -8)),
    finds: [...uneven, ...early, ...tensorOrder, ...races, "H001", "H040", "H089"],
    most: 3,
  },
  {
    fault: "an mbarrier 4 bytes on",
    class: "address",
    on: ["mbarrier.arrive", "mbarrier.try_wait.parity", "mbarrier.arrive.expect_tx"],
    edit: (site) => replacedBy(site, shifted(site.instruction, 4)),
    finds: ["H004", "H040"],
    most: 1,
  },
  {
    fault: "stages half as far apart",
    class: "address",
    on: ["mul", "mad", "xor"],
    edit: (site) => {
      const stride = site.instruction.operands[2];
      return isInteger(stride) && stride.value >= 16384n && stride.value <= 65536n
        ? replaced(site, withOperand(site.instruction, 2, integer(stride.value / 2n)))
        : null;
    },
    finds: [...misplaced, ...uneven],
    most: 2,
  },
  {
    fault: "swizzle left out of an address",
    class: "address",
    on: ["xor"],
    edit: (site) => {
      // An XOR of two registers is a chunk with its row; parities are XORed with constants.
      const [to, from, row] = site.instruction.operands;
      return isRegister(to) && isRegister(from) && isRegister(row) && to.type !== "pred"
        ? replaced(site, instruction("mov.b32", to, from))
        : null;
    },
    finds: [...misplaced, ...uneven],
    most: 2,
  },
  {
    fault: "not a global address",
    class: "address",
    on: ["cvta.to"],
    edit: (site) => {
      const i = modified(site.instruction, "global", "shared");
      return i === null ? null : replaced(site, i);
    },
    finds: ["H001", "H003"],
    most: 1,
  },
];

/** Registers whose number is one higher, where the subject has one of that name. */
function nextRegister(site: Site, at: number): readonly Statement[] | null {
  const operand = site.instruction.operands[at];
  if (!isRegister(operand)) return null;
  const digits = /^(.*?)(\d+)$/.exec(operand.name);
  if (digits === null) return null;
  const name = `${digits[1]}${Number(digits[2]) + 1}`;
  const known = site.body.some(
    (s) =>
      s.kind === "instruction" &&
      s.operands.some((x) => isRegister(x) && x.name === name && x.type === operand.type),
  );
  return known ? replaced(site, withOperand(site.instruction, at, { ...operand, name })) : null;
}

const fragments: readonly Mutator[] = [
  {
    fault: "registers of a fragment exchanged",
    class: "fragment or register",
    on: ["ldmatrix", "tcgen05.ld", "wgmma.mma_async"],
    edit: (site) => swapped(site, 0, 0, 1),
    finds: ["numbers", "H060", "H066"],
    most: 2,
  },
  {
    fault: "registers of a store exchanged",
    class: "fragment or register",
    on: ["stmatrix", "st"],
    edit: (site) => swapped(site, 1, 0, 1),
    finds: ["numbers"],
    most: 1,
  },
  ...(["A", "B", "the accumulator"] as const).map(
    (what, k): Mutator => ({
      fault: `registers of ${what} exchanged`,
      class: "fragment or register",
      on: ["mma"],
      edit: (site) => swapped(site, 1 + k, 0, 1),
      finds: ["numbers"],
      most: 1,
    }),
  ),
  {
    fault: "a fragment transposed",
    class: "fragment or register",
    on: ["ldmatrix", "stmatrix"],
    edit: (site) => {
      const at = site.instruction.modifiers.indexOf("x4") + 1;
      if (at === 0) return null;
      const modifiers = [
        ...site.instruction.modifiers.slice(0, at),
        "trans",
        ...site.instruction.modifiers.slice(at),
      ];
      return replaced(site, {
        ...site.instruction,
        modifiers,
        mnemonic: [site.instruction.opcode, ...modifiers].join("."),
      });
    },
    finds: ["numbers"],
    most: 2,
  },
  {
    fault: "halves of a pair exchanged",
    class: "fragment or register",
    on: ["cvt"],
    edit: (site) => {
      const operands =
        site.instruction.operands.length === 3 ? exchanged(site.instruction.operands, 1, 2) : null;
      return operands === null ? null : replaced(site, { ...site.instruction, operands });
    },
    finds: ["numbers"],
    most: 1,
  },
  {
    fault: "register off by one",
    class: "fragment or register",
    on: ["fma", "cvt"],
    edit: (site) => (site.instruction.modifiers.includes("rn") ? nextRegister(site, 1) : null),
    finds: ["numbers", "H086"],
    most: 2,
  },
  {
    fault: "accumulator off by one",
    class: "fragment or register",
    on: ["fma"],
    edit: (site) => nextRegister(site, 3),
    finds: ["numbers"],
    most: 1,
  },
  {
    fault: "accumulator not cleared",
    class: "fragment or register",
    on: ["mov"],
    edit: (site) => {
      // Of the registers set to 0.0, those that a product adds to whatever its predicates say.
      const [to, from] = site.instruction.operands;
      if (!isRegister(to) || from?.kind !== "float") return null;
      const added = site.body.some(
        (s) =>
          s.kind === "instruction" &&
          (s.opcode === "fma" || s.opcode === "mma") &&
          JSON.stringify(s.operands[3])?.includes(`"${to.name}"`) === true,
      );
      return added ? replaced(site) : null;
    },
    finds: ["H008", "numbers"],
    most: 1,
  },
  {
    fault: "A subtracted",
    class: "fragment or register",
    on: ["wgmma.mma_async"],
    edit: (site) => {
      const scale = site.instruction.operands[4];
      return isInteger(scale)
        ? replaced(site, withOperand(site.instruction, 4, integer(-scale.value)))
        : null;
    },
    finds: ["numbers"],
    most: 1,
  },
  {
    fault: "the sum so far thrown away",
    class: "fragment or register",
    on: ["wgmma.mma_async"],
    edit: (site) =>
      isInteger(site.instruction.operands[3])
        ? replaced(site, withOperand(site.instruction, 3, integer(0)))
        : null,
    finds: ["numbers"],
    most: 1,
  },
];

const left: readonly Mutator[] = [
  {
    fault: "a copy dropped",
    class: "dropped work",
    on: ["cp.async.bulk.tensor", "cp.async"],
    edit: dropped,
    finds: ["H006", "H030", "numbers"],
    most: 3,
  },
  {
    fault: "a copy doubled",
    class: "doubled arrival or commit",
    on: ["cp.async.bulk.tensor"],
    edit: (site) =>
      site.instruction.mnemonic.includes("complete_tx")
        ? replaced(site, site.instruction, site.instruction)
        : null,
    finds: [...uneven, "H014", "H034", "H035", "H044", "H055"],
    most: 2,
  },
  {
    fault: "a load of a fragment dropped",
    class: "dropped work",
    on: ["ldmatrix", "tcgen05.ld"],
    edit: dropped,
    finds: ["H008", "numbers"],
    most: 2,
  },
  {
    fault: "a product dropped",
    class: "dropped work",
    on: ["mma", "fma", "wgmma.mma_async", "tcgen05.mma"],
    edit: dropped,
    finds: ["numbers", "H081"],
    most: 2,
  },
  {
    fault: "a product doubled",
    class: "doubled arrival or commit",
    on: ["mma", "fma", "wgmma.mma_async", "tcgen05.mma"],
    edit: (site) => replaced(site, site.instruction, site.instruction),
    finds: ["numbers"],
    most: 1,
  },
  {
    fault: "a store to shared memory dropped",
    class: "dropped work",
    on: ["st", "stmatrix"],
    edit: (site) => (inShared(site.instruction) ? replaced(site) : null),
    finds: ["H006", "numbers"],
    most: 2,
  },
  {
    fault: "a store to global memory dropped",
    class: "dropped work",
    on: ["st"],
    edit: (site) => (inGlobal(site.instruction) ? replaced(site) : null),
    finds: ["numbers"],
    most: 2,
  },
];

export const data: readonly Mutator[] = [
  ...descriptors,
  ...instructionDescriptors,
  ...boxes,
  ...addresses,
  ...fragments,
  ...left,
];
