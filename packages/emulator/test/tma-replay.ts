/** Replays on the emulator what a probe did on an H200: one tensor or bulk copy each, shared or global memory dumped after it. */
import {
  type TensorMapSpec,
  type TensorMapSwizzle,
  type TensorMapType,
  tensorMapInterleaves,
  tensorMapL2Promotions,
  tensorMapSwizzles,
  tensorMapTypes,
} from "@tilewright/core";
import {
  createEmulator,
  type Emulator,
  type LaunchReport,
  type LoadedModule,
  type Order,
} from "../src/index.ts";
import { value } from "./support.ts";

/** Bytes of shared and of global memory that a case fills and dumps. */
export const windowBytes = 65536;

/** A case of the probe: numbers in the order in which the probe read them. */
export interface Case {
  /** 0 load, 1 store, 2 to 9 reductions of tensors, 10 load of pixels (im2col), from 20 on bulk reductions. */
  readonly op: number;
  readonly spec: TensorMapSpec;
  readonly coordinates: readonly number[];
  /** Shared address. */
  readonly offset: number;
  /** What the barrier expects; bytes of a bulk copy. */
  readonly bytes: number;
  readonly seeds: readonly [global: number, shared: number];
  /** What is copied holds the numbers of its 16-bit words, the rest ones. */
  readonly numbered?: boolean;
}

const isLoad = (op: number): boolean => op === 0 || op === 10;
/** Of the tensor's memory. */
const tensorBytes = 2 * windowBytes;
const numbers16 = new Uint8Array(Uint16Array.from({ length: windowBytes }, (_, i) => i).buffer);

const types = Object.entries(tensorMapTypes)
  .sort(([, a], [, b]) => a.driver - b.driver)
  .map(([name]) => name as TensorMapType);
const swizzles = Object.keys(tensorMapSwizzles) as TensorMapSwizzle[];

export function parseCase(line: string): Case {
  const numbers = line.split(" ").map(Number);
  let at = 0;
  const next = (): number => numbers[at++] ?? 0;
  const list = (n: number): number[] => Array.from({ length: n }, next);
  const [op, type, rank, address] = [next(), next(), next(), next()];
  const dims = list(rank);
  const strides = list(rank - 1);
  const box = list(rank);
  const elementStrides = list(rank);
  const [interleave, swizzle, l2, fill] = [next(), next(), next(), next()];
  const coordinates = list(rank);
  return {
    op,
    spec: {
      dtype: types[type] ?? "u8",
      address: BigInt(address),
      dims,
      strides,
      box,
      elementStrides,
      interleave: tensorMapInterleaves[interleave] ?? "none",
      swizzle: swizzles[swizzle] ?? "none",
      l2: tensorMapL2Promotions[l2] ?? "none",
      fill: fill === 1 ? "nan" : "zero",
    },
    coordinates,
    offset: next(),
    bytes: next(),
    seeds: [next(), next()],
  };
}

/** The probe's pattern: word i of seed `seed`. */
export function pattern(seed: number): Uint8Array {
  const words = new Uint32Array(windowBytes / 4);
  for (let i = 0; i < words.length; i++) {
    let x = (Math.imul(i, 2654435761) + seed * 40503 + 12345) >>> 0;
    x = Math.imul(x ^ (x >>> 15), 2246822519) >>> 0;
    x = Math.imul(x ^ (x >>> 13), 3266489917) >>> 0;
    words[i] = x ^ (x >>> 16);
  }
  return new Uint8Array(words.buffer);
}

const tensorOps = ["add", "min", "max", "inc", "dec", "and", "or", "xor"];
const bulkOps =
  "add.u32 add.s32 add.u64 add.f32 add.f64 add.noftz.f16 add.noftz.bf16 min.u32 max.s32 min.s64 max.u64 min.f16 max.bf16 inc.u32 dec.u32 and.b32 or.b64 xor.b32 max.f16 min.bf16".split(
    " ",
  );

function copyText(op: number, rank: number): string {
  const c = ["%c0", "%c1", "%c2", "%c3", "%c4"].slice(0, rank).join(", ");
  const offsets = op === 10 ? `, {${["%z", "%z", "%z"].slice(0, rank - 2).join(", ")}}` : "";
  if (isLoad(op))
    return `mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %bytes;
cp.async.bulk.tensor.${rank}d.shared::cluster.global.${op === 10 ? "im2col" : "tile"}.mbarrier::complete_tx::bytes [%at], [%map, {${c}}], [%bar]${offsets};
W1: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 1; @!%p bra W1;`;
  const copy =
    op >= 20
      ? `cp.reduce.async.bulk.global.shared::cta.bulk_group.${bulkOps[op - 20]} [%tensor], [%at], %bytes;`
      : op === 1
        ? `cp.async.bulk.tensor.${rank}d.global.shared::cta.tile.bulk_group [%map, {${c}}], [%at];`
        : `cp.reduce.async.bulk.tensor.${rank}d.global.shared::cta.${tensorOps[op - 2]}.tile.bulk_group [%map, {${c}}], [%at];`;
  return `${copy}\ncp.async.bulk.commit_group; cp.async.bulk.wait_group 0;`;
}

/** One thread: shared memory filled by a bulk copy, the copy under test, and for loads shared memory stored to `out`. */
const moduleText = (op: number, rank: number): string => `.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 sm[];
.visible .entry k(.param .align 64 .b8 map[128], .param .align 4 .b8 co[32], .param .u64 fill, .param .u64 out, .param .u64 tensor)
{
.reg .pred %p; .reg .b32 %sm, %bar, %at, %bytes, %off, %c<5>; .reg .b16 %z; .reg .b64 %map, %fill, %out, %tensor;
mov.b64 %map, map; cvta.param.u64 %map, %map;
ld.param.u64 %fill, [fill]; ld.param.u64 %out, [out]; ld.param.u64 %tensor, [tensor];
${[0, 1, 2, 3, 4].map((k) => `ld.param.b32 %c${k}, [co+${4 * k}];`).join("\n")}
ld.param.b32 %off, [co+20]; ld.param.b32 %bytes, [co+24];
mov.b16 %z, 0; mov.b32 %sm, sm; add.s32 %bar, %sm, ${windowBytes}; add.s32 %at, %sm, %off;
mbarrier.init.shared::cta.b64 [%bar], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], ${windowBytes};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%sm], [%fill], ${windowBytes}, [%bar];
W0: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra W0;
${copyText(op, rank)}
${isLoad(op) ? `cp.async.bulk.global.shared::cta.bulk_group [%out], [%sm], ${windowBytes};\ncp.async.bulk.commit_group; cp.async.bulk.wait_group 0;` : ""}
ret;
}
`;

/** A device with the buffers of the replay. */
export class Replay {
  readonly #emulator: Emulator = createEmulator();
  readonly #modules = new Map<string, LoadedModule>();
  readonly #tensor: bigint;
  readonly #fill: bigint;
  readonly #out: bigint;

  constructor() {
    const alloc = (): bigint => value(this.#emulator.alloc(windowBytes, 256));
    this.#tensor = value(this.#emulator.alloc(tensorBytes, 256));
    this.#fill = alloc();
    this.#out = alloc();
  }

  /** Memory after the case: shared memory for loads, else the tensor's. */
  run(c: Case, order: Order, seed = 1): { readonly report: LaunchReport; readonly image: Uint8Array } {
    const emulator = this.#emulator;
    const rank = c.spec.dims.length;
    const key = `${c.op}/${rank}`;
    let module = this.#modules.get(key);
    if (module === undefined) {
      module = value(emulator.load(moduleText(c.op, rank)));
      this.#modules.set(key, module);
    }
    const ones = new Uint8Array(tensorBytes).fill(0xff);
    const load = isLoad(c.op);
    emulator.write(this.#tensor, c.numbered === true ? (load ? numbers16 : ones) : pattern(c.seeds[0]));
    const rest = c.numbered === true ? numbers16.subarray(0, windowBytes) : pattern(c.seeds[1]);
    const blank = c.numbered === true ? 0xff : 0xcd;
    emulator.write(this.#fill, load ? new Uint8Array(windowBytes).fill(blank) : rest);
    emulator.write(this.#out, new Uint8Array(windowBytes));
    const map =
      c.op >= 20
        ? new Uint8Array(128)
        : value(emulator.encodeTensorMap({ ...c.spec, address: this.#tensor + c.spec.address }));
    const numbers = new Int32Array(8);
    c.coordinates.forEach((x, k) => {
      numbers[k] = x;
    });
    numbers[5] = c.offset;
    numbers[6] = c.bytes;
    const report = value(
      emulator.launch(module, "k", {
        grid: [1, 1, 1],
        block: [1, 1, 1],
        dynamicSmem: windowBytes + 16,
        params: [map, new Uint8Array(numbers.buffer), this.#fill, this.#out, this.#tensor],
        order,
        seed,
      }),
    );
    const size = c.numbered === true && !load ? tensorBytes : windowBytes;
    return { report, image: emulator.read(load ? this.#out : this.#tensor, size) };
  }
}
