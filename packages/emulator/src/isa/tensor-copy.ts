/** Tensor copies and reductions through tensor maps: PTX ISA 9.0, chapter 9.7.9.27.1. */

import { type Box, footprintOf } from "../bulk/box.ts";
import type { Reduction } from "../bulk/engine.ts";
import type { MapGeometry } from "../bulk/map.ts";
import { tensorMapsOf } from "../bulk/maps.ts";
import { type ReduceOp, reduces, reduceTypeOf } from "../bulk/reduce.ts";
import { loadBox, storeBox } from "../bulk/tensors.ts";
import type { Operand, Operation, TensorOperand } from "../load/types.ts";
import type { Issuer } from "../machine/state.ts";
import { destinationsOf, directionOf, eachLane, ownPlace, reduceOpOf } from "./bulk.ts";
import type { Decoder, Row, Table } from "./row.ts";

/** Shared memory of a tensor copy starts at multiples of this, whatever the swizzle (an H200 traps otherwise). */
const sharedAlign = 128;

/** Elements at whose multiples copies with padding begin (PTX ISA 9.0, 9.7.9.27.1.1). */
const paddedStep = 128;

const ranks = ["1d", "2d", "3d", "4d", "5d"] as const;

interface Shape {
  readonly rank: number;
  /** gather4 or scatter4: a column and four rows. */
  readonly four: boolean;
  /** Pixels of an im2col map; stores have no offsets. */
  readonly im2col: boolean;
  /** Along one dimension, with a halo and an offset. */
  readonly wide: "w" | "w128" | undefined;
  readonly offsets: boolean;
}

/** Dimensions and mode of a tensor instruction. */
function shapeOf(d: Decoder): Shape {
  const rank = ranks.indexOf(d.choice(...ranks)) + 1;
  const mode = d.option(
    "tile",
    "tile::gather4",
    "tile::scatter4",
    "im2col",
    "im2col_no_offs",
    "im2col::w",
    "im2col::w::128",
  );
  const wide = mode === "im2col::w" ? "w" : mode === "im2col::w::128" ? "w128" : undefined;
  return {
    rank,
    four: mode === "tile::gather4" || mode === "tile::scatter4",
    im2col: mode?.startsWith("im2col") === true,
    wide,
    offsets: mode === "im2col" || wide !== undefined,
  };
}

/** The map that the operand names, after checking that the instruction fits it; ends the launch where it does not. */
function mapOf(issuer: Issuer, operand: TensorOperand, shape: Shape): MapGeometry {
  const { machine, warp, lane, instruction } = issuer;
  const map = tensorMapsOf(machine).use(warp, lane, instruction, operand.base, operand.offset);
  const rank = map.spec.dims.length;
  if (rank !== shape.rank)
    refuse(issuer, () => `a ${shape.rank}-dimensional copy with a tensor map of rank ${rank}`);
  if (shape.im2col !== (map.spec.im2col !== undefined))
    refuse(
      issuer,
      () =>
        `a copy in ${shape.im2col ? "im2col" : "tile"} mode with ${shape.im2col ? "a tiled" : "an im2col"} map`,
    );
  if (shape.wide !== map.spec.im2col?.wide)
    refuse(
      issuer,
      () => `a copy im2col::${shape.wide ?? ""} with a map for im2col::${map.spec.im2col?.wide ?? ""}`,
    );
  if (shape.four && (map.extent[1] ?? 1) !== 1)
    refuse(
      issuer,
      () => `gather4 and scatter4 take boxes of one row; the map's box has ${map.extent[1]} rows`,
    );
  return map;
}

function refuse(issuer: Issuer, message: () => string): never {
  issuer.report("H051", () => `lane ${issuer.lane}: ${message()}`);
  return issuer.machine.stop();
}

/** The box at the operand's coordinates. `offsets`: what an im2col load gives for each of its spatial dimensions. */
function boxOf(
  issuer: Issuer,
  operand: TensorOperand,
  shape: Shape,
  map: MapGeometry,
  store: boolean,
  offsets: Operand | null = null,
): Box {
  const coordinates = operand.coordinates.map((x) => issuer.value(x) | 0);
  const [first = 0] = coordinates;
  const { interleave } = map.spec;
  if (interleave !== "none" && shape.four)
    refuse(issuer, () => `gather4 and scatter4 do not go with interleave ${interleave}`);
  if (map.usedBytes !== 16 && first % paddedStep !== 0)
    refuse(
      issuer,
      () =>
        `coordinate 0 is ${first}; maps of ${map.spec.dtype} are read from multiples of ${paddedStep} elements`,
    );
  if ((first * map.elementBytes) % 16 !== 0)
    refuse(
      issuer,
      () =>
        `coordinate 0 is ${first}, ${first * map.elementBytes} bytes into the row; TMA takes multiples of 16 bytes, here of ${16 / map.elementBytes} elements`,
    );
  if (shape.im2col) {
    const elements = offsets === null ? [] : offsets.kind === "vector" ? offsets.elements : [offsets];
    if (shape.wide !== undefined) {
      const [halo = 0, offset = 0] = elements.map((x) => (issuer.value(x) << 16) >> 16);
      return { kind: "wide", coordinates, halo: Math.max(0, halo), offset };
    }
    return {
      kind: "pixels",
      coordinates,
      offsets: elements.map((x) => issuer.value(x) & 0xffff),
    };
  }
  const negative = store ? coordinates.findIndex((x) => x < 0) : -1;
  if (negative >= 0)
    refuse(
      issuer,
      () => `coordinate ${negative} is ${coordinates[negative]}; stores take none below 0, though loads do`,
    );
  return shape.four
    ? { kind: "rows", column: first, rows: coordinates.slice(1) }
    : { kind: "tile", coordinates };
}

function checkCount(d: Decoder, operand: TensorOperand, { rank, four }: Shape): void {
  const want = four ? 5 : rank;
  if (operand.coordinates.length !== want)
    d.refuse(`it needs ${want} coordinates, not ${operand.coordinates.length}`);
}

function reductionOf(issuer: Issuer, op: ReduceOp, map: MapGeometry): Reduction {
  // As reductions see them, tf32 are f32; the bytes of types that have none are refused.
  const type = reduceTypeOf(map.spec.dtype.replace(/^tf32/, "f32"));
  if (type === null || !reduces(op, type))
    return refuse(issuer, () => `there is no reduction ${op} of ${map.spec.dtype}`);
  return { op, type };
}

/** cp.async.bulk.tensor and cp.reduce.async.bulk.tensor. */
const copy = (d: Decoder, op: ReduceOp | null): Operation => {
  const shape = shapeOf(d);
  const direction = directionOf(d);
  const multicast = d.flag("multicast::cluster");
  const group = d.option("cta_group::1", "cta_group::2");
  d.option("mbarrier::complete_tx::bytes", "bulk_group");
  if (direction === "store") {
    const tensor = d.tensor(0);
    const from = d.address(1);
    checkCount(d, tensor, shape);
    return eachLane((issuer) => {
      const map = mapOf(issuer, tensor, shape);
      if (map.spec.dtype === "b4x16_p64")
        refuse(issuer, () => "maps of b4x16_p64 are for loads alone (PTX ISA 9.0, 9.7.9.25.5.1)");
      const reduction = op === null ? null : reductionOf(issuer, op, map);
      const box = boxOf(issuer, tensor, shape, map, true);
      const address = issuer.address(from);
      const source = ownPlace(issuer, address, footprintOf(map, box), sharedAlign);
      if (source !== null) storeBox(issuer, source, map, box, reduction);
    });
  }
  if (direction === "move") return d.refuse("tensor copies lead to or from global memory");
  const to = d.address(0);
  const tensor = d.tensor(1);
  const barrier = d.address(2);
  let next = 3;
  const offsets = shape.offsets ? d.use(next++, "int") : null;
  const mask = multicast ? d.use(next++, "int") : null;
  checkCount(d, tensor, shape);
  return eachLane((issuer) => {
    const map = mapOf(issuer, tensor, shape);
    const box = boxOf(issuer, tensor, shape, map, false, offsets);
    const destinations = destinationsOf(
      issuer,
      issuer.address(to),
      issuer.address(barrier),
      footprintOf(map, box),
      sharedAlign,
      mask === null ? null : issuer.value(mask) & 0xffff,
      group === "cta_group::2",
    );
    if (destinations !== null) loadBox(issuer, destinations, map, box);
  });
};

/** cp.async.bulk.prefetch.tensor: a hint, but its map and coordinates have to be right. */
const prefetch: Row = (d) => {
  const shape = shapeOf(d);
  const tensor = d.tensor(0);
  const offsets = shape.offsets ? d.use(1, "int") : null;
  checkCount(d, tensor, shape);
  return eachLane((issuer) => {
    const map = mapOf(issuer, tensor, shape);
    boxOf(issuer, tensor, shape, map, false, offsets);
  });
};

export const tensorCopyTable: Table = {
  "cp.async.bulk.tensor": (d) => copy(d, null),
  "cp.reduce.async.bulk.tensor": (d) => copy(d, reduceOpOf(d)),
  "cp.async.bulk.prefetch.tensor": prefetch,
};
