/**
 * The issue of tcgen05.mma: operands read, descriptors decoded, everything checked and the accesses noted. What comes out is
 * carried out when the tensor core comes to it (tcgen05-product.ts).
 */
import { entryOf, roundUp } from "@tilewright/core";
import {
  accumulatorColumns,
  accumulatorLayout,
  type ColumnMask,
  type DecodedInstruction,
  decodeColumnMask,
  decodeInstructionDescriptor,
  decodeSharedDescriptor,
  metadataColumns,
  swizzleFault,
  type Tcgen05Form,
  tcgen05KindRow,
  tensorOperandColumns,
} from "@tilewright/ptx";
import type { RuleId } from "../checkers/rules.ts";
import type { AddressOperand, Operand } from "../load/types.ts";
import {
  columnOf,
  laneOf,
  type TensorAccessKind,
  tensorLanes,
  tensorMemory,
} from "../memory/tensor-memory.ts";
import type { Block } from "./state.ts";
import type { BlockHalf, Product } from "./tcgen05-load.ts";
import { endOf, type OperandShape, readPieces, vectorsOf } from "./tcgen05-operands.ts";
import { blocksOf, type TensorIssue } from "./tensor-pipe.ts";

/** One instruction: its modifiers and operands. */
export interface MmaForm extends Tcgen05Form {
  readonly d: AddressOperand;
  readonly a: Operand;
  readonly b: Operand;
  readonly descriptor: Operand;
  /** Of a sparse A. */
  readonly metadata: AddressOperand | null;
  readonly scaleA: AddressOperand | null;
  readonly scaleB: AddressOperand | null;
  /** Registers of the disable-output-lane mask. */
  readonly disabled: readonly Operand[] | null;
  readonly accumulate: Operand;
  readonly scaleD: number;
  readonly columnMask: Operand | null;
  readonly shifted: boolean;
  /** The buffer of the collector and what is done with it. */
  readonly collector: { readonly buffer: string; readonly use: CollectorUse };
}

/** A decoded shared-memory descriptor, for one instruction descriptor. */
interface SharedOperand {
  readonly faults: readonly string[];
  readonly pieces: Int32Array | null;
}

/** What an instruction has decoded before: its descriptors repeat with every turn of a ring. */
export interface Known {
  readonly decoded: DecodedInstruction;
  readonly a: Map<bigint, SharedOperand>;
  readonly b: Map<bigint, SharedOperand>;
}
/** Descriptors kept per operand; a ring has a few dozen. */
const mostKnown = 1024;

type CollectorUse = "fill" | "use" | "lastuse" | "discard";

/** Reads a 64-bit operand of one lane. */
const wide = (issue: TensorIssue, operand: Operand): bigint =>
  (BigInt(issue.value(operand, 1) >>> 0) << 32n) | BigInt(issue.value(operand) >>> 0);

/** Read the operands of one issue, check them and note the accesses. Null when the instruction cannot be carried out. */
export function resolveProduct(
  form: MmaForm,
  issue: TensorIssue,
  descriptors: Map<number, Known>,
): Product | null {
  const { warp } = issue;
  const { kind, group } = form;
  const report = (rule: RuleId, ...faults: readonly string[]): void => {
    if (faults.length > 0) issue.report(rule, () => faults.join("; "));
  };
  const word = issue.value(form.descriptor);
  const decode = (): Known => ({
    ...{ decoded: decodeInstructionDescriptor(word, form), a: new Map(), b: new Map() },
  });
  const known = entryOf(descriptors, word, decode);
  const { decoded } = known;
  report("H070", ...decoded.encoding);
  report("H072", ...decoded.meaning);
  const { descriptor } = decoded;
  if (descriptor === null || decoded.meaning.length > 0) return null;
  const { m, n } = descriptor;
  const layout = accumulatorLayout(m, group, form.weightStationary, form.sparse);
  if (layout === null) return null;
  if (form.shifted && m !== 128 && m !== 256) {
    report("H072", `.ashift with M = ${m}: M has to be 128 or 256`);
    return null;
  }
  if (group === 2 && warp.block.rank % 2 === 1)
    report(
      "H076",
      `issued by block rank ${warp.block.rank}; block rank ${warp.block.rank - 1} issues for the pair`,
    );
  let columns: ColumnMask | null = null;
  if (form.columnMask !== null) {
    const found = decodeColumnMask(wide(issue, form.columnMask), m, n, descriptor.maxShift);
    report("H070", ...found.faults);
    if (found.mask.shift > 32) return null;
    columns = found.mask;
  }

  const row = tcgen05KindRow(kind);
  const blocks = blocksOf(warp.block, group);
  const aShape: OperandShape = {
    rows: m / blocks.length,
    k: row.k,
    bits: row.bits,
    major: descriptor.aMajor,
  };
  // A shift reads columns of B past the last one, in whole pieces.
  const extra = columns === null ? 0 : roundUp(columns.shift, 16);
  const bShape: OperandShape = {
    rows: n / blocks.length + extra,
    k: form.metadata === null ? row.k : 2 * row.k,
    bits: row.bits,
    major: descriptor.bMajor,
  };
  const a = form.aInTensor ? null : sharedOperand(issue, form.a, "A", aShape, known.a);
  // Only a shift changes the extents for one descriptor.
  const b = sharedOperand(issue, form.b, "B", bShape, extra === 0 ? known.b : new Map());
  if (b === null || (a === null && !form.aInTensor)) return null;
  collect(form, issue);

  const mask = form.disabled?.map((x) => issue.value(x)) ?? null;
  const shares: BlockHalf[] = [];
  for (const [s, block] of blocks.entries()) {
    const share: BlockHalf = {
      block,
      memory: tensorMemory(block),
      a,
      b,
      disabled: mask === null ? null : Int32Array.from(mask.slice(4 * s, 4 * s + 4)),
    };
    if (!inWindow(issue, block, a, "A") || !inWindow(issue, block, b, "B")) return null;
    shares.push(share);
  }
  const address = issue.address(form.d);
  const metadata = form.metadata === null ? null : issue.address(form.metadata);
  const aAddress = form.a.kind === "address" ? issue.address(form.a) : 0;
  const product: Product = {
    issue,
    kind,
    descriptor,
    layout,
    shares,
    aShape,
    bShape,
    lane: laneOf(address),
    column: columnOf(address),
    aColumn: columnOf(aAddress),
    metadata:
      metadata === null
        ? null
        : {
            lane: laneOf(metadata),
            column: columnOf(metadata) + (descriptor.selector ?? 0),
            columns: metadataColumns(row.bits),
          },
    scales:
      form.scaleA === null || form.scaleB === null || form.scaleVector === null
        ? null
        : {
            vector: form.scaleVector,
            // The two top bits may repeat the scale factor ids.
            a: columnOf(issue.address(form.scaleA)),
            b: columnOf(issue.address(form.scaleB)),
          },
    accumulate: issue.value(form.accumulate) !== 0,
    scaleD: form.scaleD,
    shifted: form.shifted,
    columns,
  };
  if (!placed(product, form, laneOf(aAddress), report)) return null;
  for (const share of shares) {
    noteShared(issue, share);
    if (!noteTensor(product, share)) return null;
  }
  return product;
}

/** The pieces of an operand in shared memory; null when its descriptor cannot be followed. */
function sharedOperand(
  issue: TensorIssue,
  operand: Operand,
  name: string,
  shape: OperandShape,
  known: Map<bigint, SharedOperand>,
): Int32Array | null {
  const word = wide(issue, operand);
  let found = known.get(word);
  if (found === undefined) {
    if (known.size === mostKnown) known.clear();
    found = decodeShared(word, shape);
    known.set(word, found);
  }
  const { faults, pieces } = found;
  if (faults.length > 0) issue.report("H071", () => `descriptor of ${name}: ${faults.join("; ")}`);
  return pieces;
}

function decodeShared(word: bigint, shape: OperandShape): SharedOperand {
  const { descriptor, faults } = decodeSharedDescriptor(word);
  if (descriptor === null) return { faults, pieces: null };
  const impossible = swizzleFault(descriptor.swizzle, shape.major, shape.bits);
  return impossible === null
    ? { faults, pieces: vectorsOf(descriptor, shape) }
    : { faults: [...faults, impossible], pieces: null };
}

function inWindow(issue: TensorIssue, block: Block, pieces: Int32Array | null, name: string): boolean {
  if (pieces === null) return true;
  const end = endOf(pieces);
  if (end <= block.sharedSize) return true;
  issue.report(
    "H073",
    () =>
      `operand ${name} reaches up to byte ${end} of the window of block rank ${block.rank}, which has ${block.sharedSize} bytes`,
  );
  return false;
}

/** Lanes and columns of the matrices in tensor memory against their layouts and one another (H074, H075). */
function placed(
  product: Product,
  form: MmaForm,
  aLane: number,
  report: (rule: RuleId, message: string) => void,
): boolean {
  const { layout, lane, column, aColumn, metadata, scales, descriptor, shares } = product;
  const allowed = layout.halfLanes ? [0, 16] : [0];
  const where = `M = ${descriptor.m} (layout ${layout.id})`;
  let good = true;
  const lanes = (name: string, found: number, legal: readonly number[]): void => {
    if (legal.includes(found)) return;
    report("H074", `${name} starts at lane ${found}; with ${where} it starts at lane ${legal.join(" or ")}`);
    good = false;
  };
  lanes("D", lane, allowed);
  if (form.aInTensor) lanes("A", aLane, good ? [lane] : allowed);
  // In the layouts of fewer rows than lanes the address says which lanes hold the metadata.
  const starts = layout.halfLanes
    ? [lane]
    : Array.from({ length: tensorLanes / layout.rows }, (_, k) => k * layout.rows);
  if (metadata !== null) lanes("metadata", metadata.lane, good ? starts : [0]);
  const end = column + accumulatorColumns(layout, descriptor.n);
  const apart = (name: string, from: number, count: number): void => {
    if (from < end && from + count > column)
      report(
        "H074",
        `D takes columns ${column} to ${end - 1}, ${name} ${from} to ${from + count - 1}: they overlap`,
      );
  };
  if (form.aInTensor) apart("A", aColumn, tensorOperandColumns);
  if (metadata !== null) apart("the metadata of A", metadata.column, metadata.columns);
  if (scales !== null) {
    apart("the factors of A", scales.a, Math.ceil(layout.rows / 32));
    apart("the factors of B", scales.b, Math.ceil(descriptor.n / layout.parts / 32));
  }
  for (const { memory, block } of shares) {
    const owner = memory.ownerOf(column);
    if (owner !== null && owner.group !== form.group)
      report(
        "H075",
        `column ${column} of block rank ${block.rank} was allocated with cta_group::${owner.group}; this is cta_group::${form.group}`,
      );
  }
  return good;
}

/** Shared memory that a block contributes is read by the async proxy, from the issue on. */
function noteShared({ machine, op }: TensorIssue, { block, a, b }: BlockHalf): void {
  machine.countTraffic("shared", 16 * ((a?.length ?? 0) + b.length), 0);
  if (block.race === null || op === null) return;
  if (a !== null) readPieces(block.race, op, block.sharedBase, a);
  readPieces(block.race, op, block.sharedBase, b);
}

/** Lanes that are touched together: half quarters in the layout that leaves the others free. */
function spans({ layout, lane }: Product): readonly (readonly [number, number])[] {
  if (!layout.halfLanes) return [[0, tensorLanes]];
  return [0, 32, 64, 96].map((quarter) => [lane + quarter, 16] as const);
}

/** What a block's tensor memory sees. False when columns are not allocated. */
function noteTensor(product: Product, { memory, disabled }: BlockHalf): boolean {
  const { issue, layout, descriptor, column, aColumn, metadata, scales, shares } = product;
  const touch = (
    kind: TensorAccessKind,
    [lane, lanes]: readonly [number, number],
    from: number,
    columns: number,
  ): boolean => memory.access(issue.machine, issue.access, kind, lane, lanes, from, columns);
  let good = true;
  if (shares[0]?.a === null)
    for (const span of spans(product)) good = touch("read", span, aColumn, tensorOperandColumns) && good;
  if (metadata !== null)
    for (const [first, lanes] of layout.halfLanes ? spans(product) : [[metadata.lane, layout.rows] as const])
      good = touch("read", [first, lanes], metadata.column, metadata.columns) && good;
  if (scales !== null) {
    const width = descriptor.n / layout.parts;
    for (const quarter of [0, 32, 64, 96]) {
      good =
        touch("read", [quarter, Math.min(32, layout.rows)], scales.a, Math.ceil(layout.rows / 32)) && good;
      good = touch("read", [quarter, Math.min(32, width)], scales.b, Math.ceil(width / 32)) && good;
    }
  }
  const columns = accumulatorColumns(layout, descriptor.n);
  issue.machine.countTraffic(
    "tensor",
    0,
    4 * columns * spans(product).reduce((sum, [, lanes]) => sum + lanes, 0),
  );
  const kind = product.accumulate ? "update" : "write";
  for (const [lane, lanes] of spans(product)) {
    if (disabled === null) good = touch(kind, [lane, lanes], column, columns) && good;
    else
      for (let at = lane; at < lane + lanes; at += 16)
        // Sixteen lanes that are all disabled are not touched.
        if ((((disabled[at >> 5] as number) >>> (at & 16)) & 0xffff) !== 0xffff)
          good = touch(kind, [at, 16], column, columns) && good;
  }
  return good;
}

/** What the collector's buffers hold, by buffer: the operand that filled it. */
function collect(form: MmaForm, issue: TensorIssue): void {
  const { warp } = issue;
  const { buffer, use } = form.collector;
  const { engines, blocks } = warp.block.cluster;
  const rank = form.group === 2 ? warp.block.rank & ~1 : warp.block.rank;
  const name = `collector ${buffer} of ${blocks[rank]?.rank ?? rank}`;
  const operand = buffer === "a" ? form.a : form.b;
  const key = operand.kind === "address" ? `t${issue.address(operand)}` : `s${wide(issue, operand)}`;
  const held = engines.get(name);
  if ((use === "use" || use === "lastuse") && held !== key)
    issue.report("H078", () =>
      held === undefined
        ? `collector::${buffer}::${use} with nothing in the buffer`
        : `collector::${buffer}::${use}; the buffer was filled with another operand`,
    );
  if (use === "fill") engines.set(name, key);
  else if (use !== "use") engines.delete(name);
}
