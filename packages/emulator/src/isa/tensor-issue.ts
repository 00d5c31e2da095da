/** What one thread issues to the tensor core beside mma: tcgen05.cp, shift and commit. PTX ISA 9.0, chapters 9.7.16.9 and 9.7.16.12. */

import {
  decodeSharedDescriptor,
  pieceOffsets,
  type SharedDescriptor,
  swizzledAddress,
} from "@tilewright/ptx";
import type { AddressOperand, Operation } from "../load/types.ts";
import { engineArrive, type Mbarrier, mbarrierAt } from "../machine/mbarriers.ts";
import { type Block, type Execution, hex, type Machine } from "../machine/state.ts";
import { beginTensor, blocksOf, committed, issueTensor, type TensorIssue } from "../machine/tensor-pipe.ts";
import { sharedTag } from "../memory/arena.ts";
import {
  columnOf,
  describeTensorAddress,
  laneOf,
  type TensorMemory,
  tensorColumns,
  tensorLanes,
  tensorMemory,
} from "../memory/tensor-memory.ts";
import { type Decoder, onWarp } from "./row.ts";
import { firstLane } from "./warp.ts";

/**
 * A shared address that may be given as a generic one. Triton widens a shared address by zeros where a generic one is due;
 * the hardware reads the low word alone.
 */
export function sharedAddress(
  by: Execution,
  operand: AddressOperand,
  lane: number,
  generic: boolean,
): number {
  const { machine, warp } = by;
  const wide = operand.base.kind === "register" && operand.base.register.bits === 64;
  if (wide) {
    const high = machine.lane(warp, operand.base, lane, 1);
    if (high !== 0 && !(generic && high === sharedTag)) {
      by.report(
        "H003",
        () =>
          `lane ${lane} gives a 64-bit address that is no ${generic ? "generic address of" : "address in"} shared memory`,
      );
      machine.stop();
    }
  }
  return machine.address(warp, operand, lane);
}

const groupOf = (d: Decoder): 1 | 2 => (d.choice("cta_group::1", "cta_group::2") === "cta_group::2" ? 2 : 1);

// ---------------------------------------------------------------- commit

/** Bytes of an mbarrier. */
const barrierBytes = 8;

export function tensorCommit(d: Decoder): Operation {
  const group = groupOf(d);
  const generic = d.option("shared::cluster") === null;
  const multicast = d.flag("multicast::cluster");
  const address = d.address(0);
  const mask = multicast ? d.use(1, "int") : null;
  return onWarp((by, lanes) => {
    const { warp } = by;
    const issue = beginTensor(by, lanes, group);
    if (issue === null) return;
    const at = sharedAddress(by, address, issue.lane, generic);
    const targets = mask === null ? null : (issue.value(mask) & 0xffff) >>> 0;
    const barriers = barriersOf(by, at, targets);
    const clocks = warp.block.race?.clocks ?? null;
    // What the commit tracks is what has been issued before it.
    const carried = clocks === null ? null : committed(clocks, warp, issue.lane);
    issueTensor(
      issue,
      () => {
        for (const barrier of barriers) {
          if (barrier.block.exited)
            by.report(
              "H043",
              () => `the commit arrives in block rank ${barrier.block.rank}, which has exited`,
            );
          else engineArrive(by, barrier, carried);
        }
      },
      0,
      false,
    );
  });
}

/** The barriers that a commit signals: the one at the address, or those at the same offset in the blocks of a mask. */
function barriersOf(by: Execution, address: number, mask: number | null): readonly Mbarrier[] {
  const { blocks } = by.warp.block.cluster;
  if (mask !== null && mask >>> blocks.length !== 0)
    by.report("H053", () => `the mask ${hex(mask)} names blocks beyond the cluster's ${blocks.length}`);
  const ranks =
    mask === null ? [address >>> 24] : blocks.flatMap((b) => ((mask >>> b.rank) & 1 ? b.rank : []));
  return ranks.flatMap((rank) => {
    const place = by.window(((address & 0xffffff) | (rank << 24)) >>> 0, barrierBytes, barrierBytes);
    const barrier = place === null ? null : mbarrierAt(by, place);
    return barrier ?? [];
  });
}

// ---------------------------------------------------------------- cp

interface CopyShape {
  /** Rows in shared memory and bytes of each. */
  readonly rows: 4 | 32 | 64 | 128;
  readonly bytes: 16 | 32;
  /** Lanes, from the address's, that row r goes to. */
  readonly lanes: (row: number) => readonly number[];
}

const direct = (row: number): readonly number[] => [row];
const copyShapes = {
  "128x256b": { rows: 128, bytes: 32, lanes: direct },
  "128x128b": { rows: 128, bytes: 16, lanes: direct },
  /** A row for one lane of each quarter: the one that a shift has left behind. */
  "4x256b": { rows: 4, bytes: 32, lanes: (row: number) => [32 * row] },
  "64x128b.warpx2::02_13": { rows: 64, bytes: 16, lanes: (row: number) => [row, row + 64] },
  "64x128b.warpx2::01_23": {
    rows: 64,
    bytes: 16,
    lanes: (row: number) => [(row >> 5) * 64 + (row & 31), (row >> 5) * 64 + (row & 31) + 32],
  },
  "32x128b.warpx4": { rows: 32, bytes: 16, lanes: (row: number) => [row, row + 32, row + 64, row + 96] },
} as const satisfies Readonly<Record<string, CopyShape>>;

/** What becomes of 16 bytes on the way: sixteen elements of 4 or 6 bits with their padding become sixteen of 8 bits. */
type Expansion = "none" | "b4x16_p64" | "b6x16_p32";

/** Expand a piece of 16 bytes in place: e2m1 to bits 2 to 5 of a byte, 6-bit elements to bits 0 to 5. */
export function expandPiece(expansion: Expansion, piece: Uint8Array): void {
  if (expansion === "none") return;
  const source = piece.slice();
  const width = expansion === "b4x16_p64" ? 4 : 6;
  for (let k = 0; k < 16; k++) {
    const bit = k * width;
    const pair = (source[bit >> 3] as number) | ((source[(bit >> 3) + 1] ?? 0) << 8);
    const value = (pair >> (bit & 7)) & ((1 << width) - 1);
    piece[k] = width === 4 ? value << 2 : value;
  }
}

function copyShapeOf(d: Decoder): CopyShape {
  const shape = d.choice("128x256b", "4x256b", "128x128b", "64x128b", "32x128b");
  if (shape === "64x128b")
    return copyShapes[`${shape}.${d.choice("warpx2::02_13", "warpx2::01_23")}` as const];
  if (shape === "32x128b") return copyShapes[`${shape}.${d.choice("warpx4")}` as const];
  return copyShapes[shape];
}

export function tensorCopy(d: Decoder): Operation {
  const group = groupOf(d);
  const shape = copyShapeOf(d);
  const expansion: Expansion = d.flag("b8x16") ? d.choice("b6x16_p32", "b4x16_p64") : "none";
  const address = d.address(0);
  const descriptor = d.use(1, "int");
  return onWarp((by, lanes) => {
    const { machine, warp } = by;
    const issue = beginTensor(by, lanes, group);
    if (issue === null) return;
    const to = issue.address(address);
    const word = (BigInt(issue.value(descriptor, 1) >>> 0) << 32n) | BigInt(issue.value(descriptor) >>> 0);
    const source = decodeSource(by, word);
    if (source === null) return;
    const copies = blocksOf(warp.block, group).map((block) => prepareCopy(issue, block, shape, to, source));
    issueTensor(issue, () => {
      for (const copy of copies)
        if (copy !== null) {
          checkSource(issue, expansion, copy);
          runCopy(machine, shape, expansion, copy);
        }
    });
  });
}

function decodeSource(by: Execution, word: bigint): SharedDescriptor | null {
  const { descriptor, faults } = decodeSharedDescriptor(word);
  if (faults.length > 0)
    by.report("H071", () => `shared descriptor 0x${word.toString(16)}: ${faults.join("; ")}`);
  return descriptor;
}

interface Copy {
  readonly memory: TensorMemory;
  /** First lane and column. */
  readonly lane: number;
  readonly column: number;
  /** Arena offset of each 16-byte piece, row by row. */
  readonly pieces: readonly number[];
}

/** Check both ends of the copy in one block; null when it must not be made. */
function prepareCopy(
  issue: TensorIssue,
  block: Block,
  shape: CopyShape,
  address: number,
  source: SharedDescriptor,
): Copy | null {
  const { machine, op, access } = issue;
  const lane = laneOf(address);
  const column = columnOf(address);
  const rows = Array.from({ length: shape.rows }, (_, row) => shape.lanes(row)).flat();
  if (rows.some((row) => lane + row >= tensorLanes)) {
    issue.report(
      "H082",
      () => `the copy to ${describeTensorAddress(address)} reaches beyond lane ${tensorLanes - 1}`,
    );
    return null;
  }
  const memory = tensorMemory(block);
  const columns = shape.bytes / 4;
  for (const first of firstOfCells(rows.map((row) => row + lane)))
    if (!memory.access(machine, access, "write", first, 1, column, columns)) return null;
  const offsets = pieceOffsets(source, "k", shape.rows, shape.bytes, 8);
  const pieces: number[] = [];
  for (const offset of offsets) {
    const from = swizzledAddress(source, source.address + offset);
    const place = issue.window((block.rank << 24) | from, 16, 16);
    if (place === null) return null;
    if (op !== null) block.race?.asyncRead(op, place.at, 16);
    pieces.push(place.at);
  }
  machine.countTraffic("shared", pieces.length * 16, 0);
  return { memory, lane, column, pieces };
}

/** One lane of each shadow cell of 16 lanes that `lanes` touch. */
const firstOfCells = (lanes: readonly number[]): readonly number[] => [
  ...new Set(lanes.map((lane) => lane & ~15)),
];

/** Bytes of each 16 that the copy uses: padding of narrow elements may be anything. */
const usedBytes = { none: 16, b4x16_p64: 8, b6x16_p32: 12 } as const satisfies Record<Expansion, number>;

function checkSource(issue: TensorIssue, expansion: Expansion, copy: Copy): void {
  const { shadow } = issue.machine.arena;
  const { block } = copy.memory;
  for (const at of copy.pieces)
    for (let word = at >> 2; word < (at + usedBytes[expansion]) >> 2; word++) {
      if (shadow[word] === 0xff) continue;
      const address = block.rank * 2 ** 24 + 4 * word - block.sharedBase;
      issue.report(
        "H006",
        () => `the copy takes in shared address ${hex(address)}, which nothing has written`,
      );
      return;
    }
}

function runCopy(machine: Machine, shape: CopyShape, expansion: Expansion, copy: Copy): void {
  const across = shape.bytes / 16;
  const piece = new Uint8Array(16);
  const words = new Int32Array(piece.buffer);
  for (const [index, at] of copy.pieces.entries()) {
    piece.set(machine.arena.bytes.subarray(at, at + 16));
    expandPiece(expansion, piece);
    const row = Math.floor(index / across);
    const column = copy.column + (index % across) * 4;
    for (const lane of shape.lanes(row))
      copy.memory.words.set(words, (copy.lane + lane) * tensorColumns + column);
  }
}

// ---------------------------------------------------------------- shift

/** Columns that a shift moves: 32 bytes. */
const shiftColumns = 8;

/** Rows of a quarter move one lane down, towards lane 0; its last lane keeps what it has. */
export function tensorShift(d: Decoder): Operation {
  const group = groupOf(d);
  const address = d.address(0);
  return onWarp((by, lanes) => {
    const { machine, warp } = by;
    const issue = beginTensor(by, lanes, group);
    if (issue === null) return;
    const at = machine.address(warp, address, firstLane(lanes));
    const lane = laneOf(at);
    const column = columnOf(at);
    if (lane % 32 !== 0) {
      by.report(
        "H082",
        () => `the address ${describeTensorAddress(at)} does not start at a quarter of the lanes`,
      );
      return;
    }
    const memories = blocksOf(warp.block, group).map(tensorMemory);
    for (const memory of memories)
      if (!memory.access(machine, issue.access, "update", lane, 32, column, shiftColumns)) return;
    issueTensor(issue, () => {
      for (const { words } of memories)
        for (let row = lane; row < lane + 31; row++) {
          const from = (row + 1) * tensorColumns + column;
          words.copyWithin(row * tensorColumns + column, from, from + shiftColumns);
        }
    });
  });
}
