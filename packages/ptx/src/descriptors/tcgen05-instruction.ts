/** The 32-bit instruction descriptor of tcgen05.mma: PTX ISA 9.0, chapter 9.7.16.4.2, tables 42 to 44. */
import { type BitFields, field, readField, reservedBits, writeFields } from "./bit-fields.ts";
import {
  mayTranspose,
  type Tcgen05Accumulator,
  type Tcgen05Element,
  type Tcgen05Form,
  type Tcgen05Kind,
  type Tcgen05ScaleFormat,
  tcgen05KindRow,
  tcgen05ShapeFaults,
} from "./tcgen05-kinds.ts";

/** Which extent of an operand is contiguous in shared memory. */
export type Major = "k" | "mn";

export interface InstructionDescriptor {
  readonly m: number;
  readonly n: number;
  readonly a: Tcgen05Element;
  readonly b: Tcgen05Element;
  readonly d: Tcgen05Accumulator;
  readonly aMajor: Major;
  readonly bMajor: Major;
  readonly negateA: boolean;
  readonly negateB: boolean;
  /** Integer results stop at the ends of their range. */
  readonly saturate: boolean;
  /** The sparsity selector of a sparse A; left out for a dense one. */
  readonly selector?: number;
  /** Largest shift of B's columns that a .ws instruction may make when it reuses B. */
  readonly maxShift: 0 | 8 | 16 | 32;
  /** Format of the scale factors and the byte of a word at which those of A and B begin; null for kinds without. */
  readonly scale: {
    readonly format: Tcgen05ScaleFormat;
    readonly a: number;
    readonly b: number;
  } | null;
}

const common = {
  sparse: field(2, 1),
  a: field(7, 3),
  b: field(10, 3),
  negateA: field(13, 1),
  negateB: field(14, 1),
  transposeA: field(15, 1),
  transposeB: field(16, 1),
  /** N / 8. */
  n: field(17, 6),
};
const plain = {
  ...common,
  sparsity: field(0, 2),
  saturate: field(3, 1),
  d: field(4, 2),
  /** M / 16. */
  m: field(24, 5),
  maxShift: field(30, 2),
};
const scaled = {
  ...common,
  scaleB: field(4, 2),
  scaleFormat: field(23, 1),
  /** M / 128. */
  m: field(27, 2),
  scaleA: field(29, 2),
};
/** Kinds of 4-bit elements have a narrower type field for B, and a bit for K = 96. */
const scaledNarrow = { ...scaled, b: field(10, 2), k96: field(31, 1) };

const shifts = [0, 8, 16, 32] as const;
const scaleFormats = ["ue4m3", "ue8m0"] as const;

const fieldsOf = (kind: Tcgen05Kind): BitFields =>
  kind === "mxf8f6f4" ? scaled : kind === "mxf4" || kind === "mxf4nvf4" ? scaledNarrow : plain;

const nameOf = <T extends string>(codes: Readonly<Partial<Record<T, number>>>, code: number): T | null => {
  for (const name in codes) if (codes[name] === code) return name;
  return null;
};
const codeOf = <T extends string>(codes: Readonly<Partial<Record<T, number>>>, name: T): number => {
  const code = codes[name];
  if (code === undefined) throw new RangeError(`${name} is no type of this kind`);
  return code;
};

/** The descriptor's word. Fields that the kind cannot express are an error of the caller: ask `instructionDescriptorFaults` first. */
export function encodeInstructionDescriptor(kind: Tcgen05Kind, descriptor: InstructionDescriptor): number {
  const row = tcgen05KindRow(kind);
  const shared = {
    a: codeOf(row.elements, descriptor.a),
    b: codeOf(row.elements, descriptor.b),
    negateA: Number(descriptor.negateA),
    negateB: Number(descriptor.negateB),
    transposeA: Number(descriptor.aMajor === "mn"),
    transposeB: Number(descriptor.bMajor === "mn"),
    n: descriptor.n / 8,
    sparse: Number(descriptor.selector !== undefined),
  };
  const { scale } = descriptor;
  const word =
    scale === null
      ? writeFields(plain, {
          ...shared,
          sparsity: descriptor.selector ?? 0,
          saturate: Number(descriptor.saturate),
          d: codeOf(row.accumulators, descriptor.d),
          m: descriptor.m / 16,
          maxShift: shifts.indexOf(descriptor.maxShift),
        })
      : writeFields(fieldsOf(kind), {
          ...shared,
          scaleA: scale.a,
          scaleB: scale.b,
          scaleFormat: scaleFormats.indexOf(scale.format),
          m: descriptor.m / 128,
        });
  return Number(word);
}

export interface DecodedInstruction {
  /** Null when a field says nothing that exists. */
  readonly descriptor: InstructionDescriptor | null;
  /** What is wrong with the encoding itself: reserved bits, codes without meaning. */
  readonly encoding: readonly string[];
  /** What is wrong with what it asks for: shapes, types and majors that the form does not have. */
  readonly meaning: readonly string[];
}

/** Read a descriptor for an instruction of the given form, naming everything that is wrong with it. */
export function decodeInstructionDescriptor(word: number, form: Tcgen05Form): DecodedInstruction {
  const { kind } = form;
  const row = tcgen05KindRow(kind);
  const fields = fieldsOf(kind);
  const bits = BigInt(word >>> 0);
  const get = (name: string): number => {
    const at = fields[name];
    return at === undefined ? 0 : readField(bits, at);
  };
  const encoding = [...reservedBits(bits, fields, 32)];
  const sparse = get("sparse") === 1;
  if (sparse !== (form.sparse === true))
    encoding.push(
      sparse
        ? "bit 2 asks for a sparse A, which only the .sp instructions read"
        : "bit 2 says that A is dense, and the instruction is .sp",
    );
  else if (!sparse && get("sparsity") !== 0)
    encoding.push("bits 0 to 1 select sparsity, and bit 2 says that A is dense");
  if (get("k96") !== 0) encoding.push("bit 31 asks for K = 96, which only sm_103a has");
  const a = nameOf(row.elements, get("a"));
  const b = nameOf(row.elements, get("b"));
  const types = Object.entries(row.elements)
    .map(([name, code]) => `${code} ${name}`)
    .join(", ");
  if (a === null) encoding.push(`type ${get("a")} of A: kind::${kind} has ${types}`);
  if (b === null) encoding.push(`type ${get("b")} of B: kind::${kind} has ${types}`);
  const d = nameOf(row.accumulators, get("d"));
  if (d === null)
    encoding.push(
      `type ${get("d")} of D: kind::${kind} has ${Object.entries(row.accumulators)
        .map(([name, code]) => `${code} ${name}`)
        .join(", ")}`,
    );
  if (a === null || b === null || d === null) return { descriptor: null, encoding, meaning: [] };
  const descriptor: InstructionDescriptor = {
    m: get("m") * (row.scales === null ? 16 : 128),
    n: get("n") * 8,
    a,
    b,
    d,
    aMajor: get("transposeA") === 1 ? "mn" : "k",
    bMajor: get("transposeB") === 1 ? "mn" : "k",
    negateA: get("negateA") === 1,
    negateB: get("negateB") === 1,
    saturate: get("saturate") === 1,
    ...(sparse ? { selector: get("sparsity") } : {}),
    maxShift: shifts[get("maxShift")] ?? 0,
    scale:
      row.scales === null
        ? null
        : { format: scaleFormats[get("scaleFormat")] ?? "ue8m0", a: get("scaleA"), b: get("scaleB") },
  };
  return { descriptor, encoding, meaning: instructionDescriptorFaults(descriptor, form) };
}

/** Why the form has no such instruction, every reason; [] when it has. */
export function instructionDescriptorFaults(
  descriptor: InstructionDescriptor,
  form: Tcgen05Form,
): readonly string[] {
  const { kind } = form;
  const row = tcgen05KindRow(kind);
  const { a, b, d } = descriptor;
  const faults = [
    ...tcgen05ShapeFaults(form, descriptor.m, descriptor.n, row.bits === 8 && descriptor.bMajor === "mn"),
  ];
  for (const [name, element, major] of [
    ["A", a, descriptor.aMajor],
    ["B", b, descriptor.bMajor],
  ] as const) {
    if (row.elements[element] === undefined)
      faults.push(`${name} of type ${element} is not of kind::${kind}`);
    else if (major === "mn" && !mayTranspose(element))
      faults.push(`${name} of type ${element} has to have K contiguous`);
  }
  if (form.aInTensor && descriptor.aMajor === "mn")
    faults.push("A in tensor memory has to have K contiguous");
  if (row.accumulators[d] === undefined) faults.push(`D of type ${d} is not of kind::${kind}`);
  if (kind === "f16" && d === "f16" && (a !== "f16" || b !== "f16"))
    faults.push("D of type f16 needs A and B of type f16");
  if ((descriptor.negateA || descriptor.negateB) && !row.negate)
    faults.push(`kind::${kind} does not negate operands`);
  if ((descriptor.selector ?? 0) !== 0 && row.bits < 16)
    faults.push(`sparsity selector ${descriptor.selector}: kind::${kind} takes all columns, by 0`);
  if (descriptor.saturate && kind !== "i8") faults.push("only kind::i8 saturates");
  if (descriptor.maxShift !== 0 && !form.weightStationary) faults.push("only .ws instructions shift B");
  const { scale } = descriptor;
  if (row.scales === null || scale === null) {
    if ((row.scales === null) !== (scale === null))
      faults.push(`kind::${kind} ${row.scales === null ? "has no" : "needs"} scale factors`);
    return faults;
  }
  const formats = form.scaleVector === null ? undefined : row.scales[form.scaleVector];
  if (form.scaleVector === null || formats === undefined) {
    faults.push(`kind::${kind} has no scale_vec::${form.scaleVector ?? 0}X`);
    return faults;
  }
  if (!formats.includes(scale.format))
    faults.push(`kind::${kind} with scale_vec::${form.scaleVector}X has no factors of type ${scale.format}`);
  for (const [name, id] of [
    ["A", scale.a],
    ["B", scale.b],
  ] as const)
    if (id % form.scaleVector !== 0)
      faults.push(
        `scale factor id ${id} of ${name}: ${form.scaleVector} factors begin at a multiple of that`,
      );
  return faults;
}
