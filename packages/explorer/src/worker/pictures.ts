/** What can be drawn of a kernel without running it. */
import { dtypeNames, type Gpu, hasFeature, type Target } from "@tilewright/core";
import {
  type Artifact,
  atoms,
  contiguousAxis,
  eachStmt,
  elementBytes,
  hasAtom,
  linearOffset,
  modeCoordinate,
  type Ownership,
  type OwnershipMode,
  ownedRegisters,
  printRaster,
  rasterTile,
  tensorKinds,
  tensorTileLayout,
  warpgroupAtom,
  withPadding,
} from "@tilewright/ir";
import { type BankMap, bankMaps, bankPicture, compiler, planOf } from "tilewright";
import type { OwnerPicture, Pictures, RasterPicture, TensorTile } from "./compiling.ts";

const mostTiles = 64;

/** `wave`: tiles of a wave; null where no GPU is known, and all are one. */
function rasterOf({ program }: Artifact, wave: number | null): RasterPicture | null {
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind !== "tiles") continue;
    const [rows, columns] = stmt.extents;
    const shown = [Math.min(rows, mostTiles), Math.min(columns, mostTiles)] as const;
    const numbers = new Array<number>(shown[0] * shown[1]).fill(0);
    for (let t = 0; t < rows * columns; t++) {
      const [row, column] = rasterTile(stmt.raster, [rows, columns], t);
      if (row < shown[0] && column < shown[1]) numbers[row * shown[1] + column] = t;
    }
    return {
      order: printRaster(stmt.raster),
      tiles: [rows, columns],
      numbers,
      shown,
      wave: wave ?? rows * columns,
    };
  }
  return null;
}

/** Threads by number (128 for a warpgroup; those of a pair's second CTA behind those of the first) and registers of a tile of `rows` x `columns` elements. */
function ownersOf(name: string, own: Ownership, rows: number, columns: number, warps: number): OwnerPicture {
  const threads = new Array<number>(rows * columns).fill(-1);
  const registers = new Array<number>(rows * columns).fill(-1);
  const held = ownedRegisters(own);
  const pairs = [...own.rows, ...own.cols].filter(({ tier }) => tier === "cluster");
  const ctas = pairs.reduce((most, { extent, stride }) => Math.max(most, extent * stride), 1);
  for (let all = 0; all < ctas * warps; all++)
    for (let thread = 0; thread < 32; thread++) {
      const at = { cluster: Math.floor(all / warps), warp: all % warps, thread };
      const [row, column] = [modeCoordinate(own.rows, at), modeCoordinate(own.cols, at)];
      for (const one of held) {
        const index = (row + one.row) * columns + column + one.col;
        if ((threads[index] ?? 0) !== -1) continue;
        threads[index] = 32 * all + thread;
        registers[index] = one.register;
      }
    }
  return { name, rows, columns, threads, registers };
}

/** Fragments of the matrix instructions of a target: those of the kernel at hand first, then the others. */
function fragments({ program }: Artifact, target: Target): readonly OwnerPicture[] {
  const used = new Set<string>();
  for (const stmt of eachStmt(program.body))
    if (stmt.kind === "mma" && stmt.atom !== null) used.add(String(stmt.atom));
  const ofWarp = atoms
    .filter((atom) => hasAtom(target, atom))
    .map(({ name, m, n, k, fragments: { a, b, acc } }) => ({
      name,
      list: [
        ownersOf(`${name}: A`, a, m, k, 1),
        ownersOf(`${name}: B`, b, k, n, 1),
        ownersOf(`${name}: accumulator`, acc, m, n, 1),
      ],
    }));
  const groups = hasFeature(target, "wgmma") ? warpgroupFragments() : [];
  const first = ofWarp.filter(({ name }) => used.has(name));
  const others = ofWarp.filter(({ name }) => !used.has(name));
  return [...groups, ...[...first, ...others].flatMap(({ list }) => list)];
}

/** Columns of the pictures of wgmma: of every n, each eight columns look the same. */
const groupColumns = 16;

/** Fragments of every wgmma: the dtype of A decides how A lies in registers, and nothing how the accumulator does. */
function warpgroupFragments(): readonly OwnerPicture[] {
  const accs = ["f32", "f16", "s32"] as const;
  const found = dtypeNames.flatMap((a) =>
    dtypeNames.flatMap((b) => accs.flatMap((acc) => warpgroupAtom(a, b, acc, groupColumns) ?? [])),
  );
  const types = (all: readonly string[]): string => [...new Set(all)].join(", ");
  const operands = [...new Set(found.map(({ shape }) => shape))].flatMap((shape) => {
    const same = found.filter((atom) => atom.shape === shape);
    const name = `wgmma ${shape}: A of ${types(same.map(({ a }) => a))} from registers`;
    return same.slice(0, 1).map(({ fragments: { a }, m, k }) => ownersOf(name, a, m, k, 4));
  });
  const [any] = found;
  if (any === undefined) return [];
  const name = `wgmma m64n${groupColumns}: accumulator of ${types(found.map(({ acc }) => acc))}`;
  return [ownersOf(name, any.fragments.acc, any.m, any.n, 4), ...operands];
}

/** Tiles in registers of the kernel itself, as bound. */
const tilesOf = ({ program }: Artifact): readonly OwnerPicture[] =>
  program.buffers.flatMap(({ name, own, shape }) =>
    own === null || shape[0] * shape[1] > 2 ** 16
      ? []
      : [ownersOf(`%${name} of this kernel`, own, shape[0], shape[1], program.launch.threads / 32)],
  );

/** Where a tile lies in tensor memory: the lane and column of each element. */
function tensorPicture(name: string, tile: TensorShape): OwnerPicture | null {
  const layout = tensorTileLayout(tile);
  if (layout === null) return null;
  // Of a pair each CTA has its half of the rows; the other's look the same.
  const rows = layout.shape[0] ?? 0;
  const columns = layout.shape[1] ?? 0;
  const places = Array.from({ length: rows * columns }, (_, i) =>
    linearOffset(layout, [Math.floor(i / columns), i % columns]),
  );
  return {
    ...{ name, rows, columns, tensor: true },
    threads: places.map((place) => Math.floor(place / 65_536)),
    registers: places.map((place) => place % 65_536),
  };
}

type TensorShape = Parameters<typeof tensorTileLayout>[0];

const mode = (tier: OwnershipMode["tier"], extent: number, stride: number): OwnershipMode => ({
  tier,
  extent,
  stride,
});

/** Which thread gets which element of a warpgroup's load (PTX ISA, tcgen05.ld). */
const tensorLoads: Readonly<Record<string, Ownership>> = {
  "32x32b": { rows: [mode("warp", 4, 1), mode("thread", 32, 1)], cols: [mode("register", 16, 1)] },
  "16x256b": {
    rows: [mode("warp", 4, 1), mode("register", 2, 2), mode("thread", 8, 4)],
    cols: [mode("register", 2, 4), mode("thread", 4, 1), mode("register", 2, 1)],
  },
};

/** What the matrix instructions of tensor memory write, and what its loads give: the same of all kinds. */
function tensorFragments({ program }: Artifact, target: Target): readonly OwnerPicture[] {
  const kinds = tensorKinds.filter(({ feature }) => hasFeature(target, feature)).map(({ kind }) => kind);
  if (kinds.length === 0) return [];
  const of = `tcgen05.mma (${kinds.join(", ")}): D of`;
  const shapes: readonly (readonly [name: string, tile: TensorShape])[] = [
    ...program.buffers
      .filter(({ space }) => space === "tensor")
      .map((tile) => [`%${tile.name} of this kernel, in tensor memory`, tile] as const),
    [`${of} 128 x 16, one CTA`, { shape: [128, 16] }],
    [`${of} 64 x 16, one CTA`, { shape: [64, 16] }],
    [`${of} 256 x 16, a CTA of a pair`, { shape: [256, 16], halves: 0 }],
    [`${of} 128 x 16, a CTA of a pair`, { shape: [128, 16], halves: 0 }],
  ];
  return [
    ...shapes.flatMap(([name, tile]) => tensorPicture(name, tile) ?? []),
    ...Object.entries(tensorLoads).map(([name, own]) =>
      ownersOf(`tcgen05.ld ${name}: registers of a warpgroup`, own, name === "32x32b" ? 128 : 64, 16, 4),
    ),
  ];
}

/** Bytes that a matrix instruction or a bulk copy takes of a row at a time. */
const rowChunk = 16 as const;

/** Tiles that no thread reads or writes: 32 rows next to each other, 16 bytes of each, as matrix instructions read them and bulk copies write them. */
function bulkMaps(program: Artifact["program"]): readonly BankMap[] {
  const seen = new Set(bankMaps(program).map(({ buffer }) => buffer));
  return program.buffers.flatMap((buffer): readonly BankMap[] => {
    const { name, space, shape, layout } = buffer;
    if (space !== "shared" || layout === null || seen.has(name)) return [];
    const bytes = elementBytes(buffer);
    const axis = contiguousAxis(program, name);
    const plain = withPadding(shape, axis, 0);
    const lanes = Array.from({ length: 32 }, (_, row): readonly [number, number] | null =>
      row >= (shape[1 - axis] ?? 0) ? null : axis === 1 ? [row, 0] : [0, row],
    );
    const access = {
      name: "16 bytes of each row, as a matrix instruction reads them",
      width: rowChunk,
      lanes,
    };
    return [
      {
        ...{ buffer: name, access: access.name, width: rowChunk },
        before: bankPicture(plain, access, bytes),
        after: bankPicture(layout, access, bytes),
      },
    ];
  });
}

/** Offsets in tensor memory are lane times 65536 plus column. */
const tensorTiles = ({ program }: Artifact): readonly TensorTile[] =>
  program.buffers.flatMap(({ name, space, layout, shape, slots }) => {
    if (space !== "tensor" || layout === null) return [];
    let columns = 0;
    for (let row = 0; row < shape[0]; row++)
      for (let column = 0; column < shape[1]; column++)
        columns = Math.max(columns, (linearOffset(layout, [row, column]) % 65_536) + 1);
    return [{ name, columns, slots }];
  });

export function picturesOf(artifact: Artifact, gpu: Gpu | null): Pictures {
  const plan = gpu === null ? null : planOf(compiler, artifact, gpu, { deterministic: false, alone: true });
  return {
    plan: plan?.ok ? plan.value : null,
    planReasons: plan === null || plan.ok ? [] : plan.error,
    banks: [...bankMaps(artifact.program), ...bulkMaps(artifact.program)],
    raster: rasterOf(artifact, plan?.ok ? plan.value.waves.perWave : null),
    tensor: tensorTiles(artifact),
    owners: [
      ...tilesOf(artifact),
      ...tensorFragments(artifact, artifact.target),
      ...fragments(artifact, artifact.target),
    ],
  };
}
