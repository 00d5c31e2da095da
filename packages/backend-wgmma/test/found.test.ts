/** What the whole conformance table found on a GPU machine, kept as cases; and the property that would have found the first of them. */
import { checkCase, pick, problemOf, targetOf } from "@tilewright/conformance";
import { type Checked, createRandom, parseProblem } from "@tilewright/core";
import {
  attentionText,
  createCompiler,
  eachStmt,
  findWarpgroupAtom,
  parseSchedule,
  printProgram,
  printSchedule,
  readAttention,
  runPasses,
} from "@tilewright/ir";
import { type Device, openDevice } from "@tilewright/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { wgmma } from "../src/backend.ts";
import { randomSchedule } from "./support/cases.ts";

const target = targetOf("sm_90a");
let emulator: Device;
beforeAll(async () => {
  const device = await openDevice({ kind: "emulator", arch: "sm_90a" });
  if (!device.ok) throw new Error(JSON.stringify(device.error));
  emulator = device.value;
});
afterAll(() => emulator.close());

function value<T>(checked: Checked<T>): T {
  if (!checked.ok) throw new Error(JSON.stringify(checked.error));
  return checked.value;
}

test.each([
  [
    "bulk copies read a transposed copy of rows that they could not read in place",
    "m=33 n=51 k=40 a=tf32:row:40:16 b=tf32:row:51:4 d=f32:row:51:4 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
    "tile=64x32x32 transpose=b warpgroups=1x1 stages=2 sched=tiles epi=direct",
  ],
  [
    "ping-pong of weights whose chunks of a tile are two rounds of the ring",
    "m=37 n=48 k=256 a=bf16:row:256:16 b=s8:col:256:16 d=bf16:row:48:16 acc=f32 weights=32,zeros alpha=1 beta=0 batch=none epilogue=none",
    "tile=104x64x64 warpgroups=1x1 swapAB=on pingPong=3 stages=2",
  ],
])("%s: the text of stage machine leads to the same kernel", (_, described, schedule) => {
  const compiler = createCompiler({ backends: [wgmma] });
  const problem = value(parseProblem(described));
  const made = value(compiler.compile({ problem, target, schedule }));
  expect(value(compiler.compile({ from: printProgram(made.program), target })).ptx).toBe(made.ptx);
});

test("blocks that share copies are not of tiles of which one may have no rows: it ends at once, and the other would wait for its part", () => {
  const compiler = createCompiler({ backends: [wgmma] });
  const schedule = "tile=64x64x64 warpgroups=1x1 cluster=2x1 sched=tiles epi=direct";
  const codes = (offsets: "both" | "keys", more: object): readonly string[] => {
    const sizes = { queries: 200, keys: 130, heads: 2, headDim: 64, batch: 3, totalKeys: 300, ...more };
    const request = readAttention({ op: "attention", dtype: "bf16", offsets, ...sizes });
    const made = compiler.compile({ from: attentionText(value(request)), target, schedule });
    return made.ok ? [] : made.error.map(({ code }) => code);
  };
  expect(codes("both", { totalQueries: 150 })).toEqual(["TW3170"]);
  expect(codes("keys", {})).toEqual([]);
});

describe("right, without findings, assembled without C75xx and spills", () => {
  test.each([
    [
      "warpgroups side by side, B along n, 40 columns each",
      "m=37 n=50 k=21 a=bf16:row:28:16 b=bf16:row:54:8 c=bf16:row:50:16 d=bf16:row:50:16 acc=f32 alpha=1 beta=1 batch=none epilogue=none",
      "tile=128x80x32 warpgroups=2x2 stages=4 copy=direct swizzle=64B sched=tiles epi=direct guards=off",
    ],
    [
      "one warpgroup, two instructions of 160 columns, B along n",
      "m=70 n=320 k=20 a=f16:row:24:16 b=f16:row:320:16 d=f16:row:320:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x320x32 warpgroups=1x1 stages=2 copy=tma regs=24/240 sched=tiles epi=direct",
    ],
    [
      "accumulators that nobody reads, one chunk, by the threads",
      "m=1 n=13 k=2 a=bf16:row:3:2 b=bf16:col:6:2 d=bf16:col:5:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=256x32x64 warpgroups=2x1 stages=5 copy=direct multicast=off raster=row sched=tiles epi=direct storeElements=1",
    ],
    [
      "the same of blocks that share a tile",
      "m=33 n=17 k=9 a=bf16:row:9:2 b=bf16:col:16:16 d=bf16:col:33:16 acc=f32 alpha=1 beta=0 batch=none epilogue=activation(relu)",
      "tile=256x32x16 warpgroups=2x1 stages=2 copy=direct sched=tiles split=2 epi=direct storeElements=1",
    ],
    [
      "the same by bulk copies, persistent CTAs",
      "m=1 n=1 k=1 a=f16:col:2:16 b=f16:row:8:16 d=f16:col:1:8 acc=f32 alpha=1 beta=0 batch=none epilogue=output(f16:col:1:16)",
      "tile=64x32x64 warpgroups=1x1 stages=8 epi=direct",
    ],
    [
      "one chunk by the threads, all of it inside D, a second output",
      "m=64 n=48 k=32 a=e4m3:row:36:16 b=e5m2:col:33:16 d=bf16:row:52:4 acc=f32 alpha=1 beta=0 batch=none epilogue=output(bf16:col:64:16)",
      "tile=64x8x128 warpgroups=1x1 stages=8 copy=direct sched=tiles epi=direct",
    ],
    [
      "A widened from s8, B along n, warpgroups in a square, several chunks",
      "m=140 n=152 k=200 a=s8:row:208:16 b=bf16:row:152:16 d=bf16:row:152:16 acc=f32 alpha=1 beta=0 batch=none epilogue=scale(m,f32)",
      "tile=128x96x64 warpgroups=2x2 stages=2",
    ],
    [
      "A widened from e5m2, shared by a cluster, no swizzle, f16 accumulators",
      "m=70 n=72 k=96 a=e5m2:row:96:16 b=f16:col:96:16 d=f16:row:72:16 acc=f16 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x64x32 warpgroups=1x1 stages=2 cluster=1x2 swizzle=none",
    ],
    [
      "A widened from u8, a matrix of one element, whose order says nothing",
      "m=1 n=1 k=1 a=u8:row:1:16 b=f16:row:1:8 d=f16:row:1:4 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x8x128 warpgroups=1x1 stages=8 copy=direct sched=tiles epi=direct",
    ],
    [
      "sums of several chunks that are promoted, factors of squares and of columns, two tiles in a square, batches",
      "m=200 n=72 k=304 a=e4m3:row:304:16 b=e5m2:col:304:16 d=bf16:row:72:16 acc=f32 blockScales=128x128,1x128 alpha=1 beta=0 batch=strided:2:60800:21888:0:14400 epilogue=none",
      "tile=64x32x128 warpgroups=1x1 stages=3 cluster=2x1",
    ],
    [
      "factors of rows and squares, warpgroups side by side, stream-K",
      "m=130 n=264 k=520 a=e4m3:row:528:16 b=e4m3:col:528:16 d=bf16:row:264:16 acc=f32 blockScales=1x128,128x128 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x256x128 warpgroups=1x2 stages=2 regs=24/240 streamk=4",
    ],
    [
      "sums in two parts of columns, factors of rows with the stage, squares, batches",
      "m=132 n=400 k=528 a=e4m3:row:528:16 b=e4m3:col:528:16 d=bf16:row:400:16 acc=f32 blockScales=1x128,128x128 alpha=1 beta=0 batch=strided:2:69696:211200:0:52800 epilogue=none",
      "tile=128x256x128 warpgroups=2x1 stages=3 regs=24/240",
    ],
    [
      "squares that begin inside of tiles of 192 columns, a cluster that shares them",
      "m=260 n=400 k=400 a=e4m3:row:400:16 b=e5m2:col:400:16 d=bf16:row:400:16 acc=f32 blockScales=1x128,128x128 alpha=1 beta=0 batch=none epilogue=none",
      "tile=128x192x128 warpgroups=2x1 stages=3 regs=24/240 cluster=2x1",
    ],
    [
      "squares of A that begin inside of tiles of 192 rows, two runs in a chunk",
      "m=200 n=72 k=304 a=e4m3:row:304:16 b=e5m2:col:304:16 d=bf16:row:72:16 acc=f32 blockScales=128x128,1x128 alpha=1 beta=0 batch=none epilogue=none",
      "tile=192x32x256 warpgroups=3x1 stages=2",
    ],
    [
      "the same of columns, of blocks that meet in a cluster, rows that no bulk copy takes",
      "m=70 n=200 k=528 a=e4m3:row:528:16 b=e4m3:col:528:16 d=bf16:row:200:16 acc=f32 blockScales=1x128,128x128 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x96x128 warpgroups=1x1 stages=2 sched=tiles split=2 reduction=cluster epi=direct",
    ],
    [
      "four steps that read matrices, 512 threads",
      "m=59 n=17 k=25 a=bf16:row:32:2 b=bf16:col:32:16 d=bf16:col:66:16 acc=f32 alpha=1.5 beta=0 batch=none epilogue=gate(f32:col:59:16)|residual(f32:row:17:16)|gate(f32:row:17:16)|residual(f32:col:59:16)",
      "tile=256x80x16 warpgroups=2x2 stages=5 copy=direct sched=tiles peel=off epi=direct",
    ],
    [
      "bulk stores of warpgroups in a square, into columns",
      "m=152 n=201 k=72 a=f16:row:72:16 b=f16:col:72:16 d=f16:col:152:16 acc=f32 alpha=1 beta=0 batch=none epilogue=residual(f32:row:201:16)",
      "tile=128x96x64 warpgroups=2x2 stages=3 regs=24/104",
    ],
    [
      "bulk stores of three warpgroups side by side, 80 columns each",
      "m=70 n=248 k=72 a=f16:row:72:16 b=f16:col:72:16 d=f16:row:256:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x240x64 warpgroups=1x3 stages=3 sched=tiles",
    ],
    [
      "bulk stores of three warpgroups below each other, f32 into columns",
      "m=200 n=40 k=72 a=f16:row:72:16 b=f16:col:72:16 d=f32:col:204:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=192x32x64 warpgroups=3x1 stages=3",
    ],
    [
      "tf32 across k, both transposed by a kernel before, shared by a cluster, odd pitches",
      "m=131 n=133 k=70 a=tf32:col:131:4 b=tf32:row:133:4 d=f32:row:133:4 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x64x32 warpgroups=1x1 stages=2 transpose=ab cluster=2x1 epi=direct",
    ],
    [
      "the same of a batch behind partial tiles, B shared by its problems",
      "m=64 n=40 k=128 a=tf32:row:128:16 b=tf32:row:40:16 d=f32:row:40:16 acc=f32 alpha=1 beta=0 batch=strided:3:8192:0:0:2560 epilogue=none",
      "tile=64x32x32 warpgroups=1x1 stages=2 transpose=b sched=tiles split=2",
    ],
    [
      "the same by cp.async, A as it is, with an odd pitch",
      "m=70 n=40 k=45 a=tf32:row:45:4 b=tf32:row:40:16 d=f32:row:40:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x32x32 warpgroups=1x1 stages=2 copy=cp.async transpose=b epi=direct",
    ],
    [
      "operands that do not lie along k, shared by a cluster over several chunks",
      "m=192 n=200 k=200 a=f16:col:192:16 b=f16:row:200:16 d=f16:row:200:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x64x64 warpgroups=1x1 stages=3 cluster=2x2 multicast=ab",
    ],
    [
      "blocks that meet in a cluster, three of which add up slices",
      "m=70 n=40 k=128 a=bf16:row:128:16 b=bf16:col:128:16 c=bf16:row:40:16 d=bf16:row:40:16 acc=f32 alpha=1 beta=0.5 batch=none epilogue=none",
      "tile=64x48x32 warpgroups=1x1 stages=2 sched=tiles split=4 reduction=cluster regs=24/104",
    ],
    [
      "the same with packed accumulators, overlapping launches and a batch",
      "m=70 n=64 k=128 a=f16:row:128:16 b=f16:col:128:16 d=f16:row:64:16 acc=f16 alpha=1 beta=0 batch=strided:2:8960:8192:0:4480 epilogue=none",
      "tile=64x64x32 warpgroups=1x1 stages=2 sched=tiles split=4 reduction=cluster pdl=on epi=direct",
    ],
    [
      "the same by threads that copy",
      "m=50 n=60 k=130 a=s8:row:144:16 b=s8:col:144:16 d=s32:row:60:16 acc=s32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x32x32 warpgroups=1x1 stages=2 copy=direct sched=tiles split=4 reduction=cluster epi=direct",
    ],
    [
      "a second kernel behind one that overlaps the launch before",
      "m=70 n=60 k=130 a=bf16:row:136:16 b=bf16:col:136:16 d=bf16:row:60:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x32x32 warpgroups=1x1 stages=2 sched=tiles split=4 reduction=kernel pdl=on epi=direct",
    ],
    [
      "blocks that add up slices through memory, warpgroups side by side",
      "m=70 n=72 k=300 a=bf16:row:304:16 b=bf16:col:304:16 c=bf16:row:72:16 d=bf16:row:72:16 acc=f32 alpha=1 beta=0.5 batch=none epilogue=none",
      "tile=64x64x32 warpgroups=1x2 stages=3 delayedRelease=on sched=tiles split=4 reduction=slices epi=direct",
    ],
    [
      "parts that bulk copies add, of more registers than a warp's room holds",
      "m=70 n=72 k=300 a=bf16:row:304:16 b=bf16:col:304:16 c=bf16:row:72:16 d=bf16:row:72:16 acc=f32 alpha=1 beta=0.5 batch=none epilogue=none",
      "tile=128x80x32 warpgroups=2x1 stages=3 sched=tiles split=4 reduction=bulk",
    ],
    [
      "the same of packed halves, warpgroups side by side, copies by the threads",
      "m=70 n=72 k=130 a=f16:row:131:2 b=f16:col:130:2 d=f16:row:72:16 acc=f16 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x96x32 warpgroups=1x2 stages=2 copy=direct sched=tiles split=3 reduction=bulk epi=direct",
    ],
    [
      "the same of shares, beside bulk stores of tiles before",
      "m=70 n=72 k=264 a=bf16:row:264:16 b=bf16:col:264:16 d=bf16:row:72:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x64x64 warpgroups=1x1 stages=4 streamk=3 reduction=bulk",
    ],
    [
      "ping-pong: two sets of warpgroups by turns, slots given back late, five tiles a block",
      "m=330 n=136 k=200 a=bf16:row:200:16 b=bf16:col:200:16 d=bf16:row:136:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x64x64 warpgroups=1x1 stages=3 pingPong=2 delayedRelease=on",
    ],
    [
      "C, a residual, a gate and vectors of both kinds by bulk copies, roles by turns",
      "m=140 n=72 k=136 a=bf16:row:136:16 b=bf16:col:136:16 c=f32:col:140:16 d=bf16:row:72:16 acc=f32 alpha=1 beta=0.5 batch=none epilogue=bias(n,f32)|residual(bf16:row:72:16)|scale(m,bf16)|gate(e4m3:col:144:16)",
      "tile=64x64x64 warpgroups=1x1 stages=2 pingPong=2 delayedRelease=on epilogueLoad=tma",
    ],
    [
      "the same with a counter in a cluster, a batch, warpgroups side by side, 320 columns, stores by the threads",
      "m=70 n=330 k=40 a=e4m3:row:48:16 b=e4m3:col:48:16 d=bf16:row:336:16 acc=f32 alpha=1 beta=0 batch=strided:2:3360:15840:0:23520 epilogue=scale(m,f32)|scale(n,f32)|residual(f16:row:336:16)",
      "tile=64x320x32 warpgroups=1x2 stages=2 regs=40/232 cluster=2x1 sched=atomic epilogueLoad=tma epi=direct",
    ],
    [
      "many boxes a chunk, whose coordinates a producer with a budget does not keep, sizes at launch",
      "m=48 n=40 k=64 a=f16:col:48:16 b=f16:row:40:16 c=f16:row:40:16 d=f16:row:40:16 acc=f32 symbolic=m%8,n:8..80%8,k%8,lda%8,ldb%8,ldc%8,ldd%8 alpha=1 beta=1 batch=none epilogue=none",
      "tile=128x96x32 warpgroups=1x2 stages=5 copy=tma regs=40/232 swizzle=none cluster=2x1 multicast=b raster=grouped:2 sched=tiles schedulerStages=1 l2Prefetch=5 split=2 peel=off epi=direct storeElements=1",
    ],
    [
      "C and a residual by bulk copies where the launch gives the sizes",
      "m=70 n=72 k=64 a=bf16:row:64:16 b=bf16:col:64:16 c=bf16:row:72:16 d=bf16:row:72:16 acc=f32 symbolic=m,n%8,k%8,lda%8,ldb%8,ldc%8,ldd%8,ldepilogue1%8 alpha=1 beta=1 batch=none epilogue=bias(n,f32)|residual(bf16:row:72:16)",
      "tile=64x32x32 warpgroups=1x1 stages=2 epilogueLoad=tma",
    ],
    [
      "ping-pong with a counter of tiles, in a cluster",
      "m=330 n=72 k=136 a=bf16:row:136:16 b=bf16:col:136:16 d=bf16:row:72:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x32x64 warpgroups=1x1 stages=2 pingPong=2 delayedRelease=on sched=atomic schedulerStages=2 cluster=2x1",
    ],
    [
      "three roles by turns, a counter with one number at a time, a batch, few tiles",
      "m=70 n=40 k=40 a=f16:row:40:16 b=f16:col:40:16 d=f16:row:40:16 acc=f32 alpha=1 beta=0 batch=strided:2:2800:1600:0:2800 epilogue=none",
      "tile=64x32x32 warpgroups=1x1 stages=2 pingPong=3 sched=atomic schedulerStages=1 epi=direct",
    ],
    [
      "a factor for each row of A and each column of B and 128 along k",
      "m=70 n=72 k=304 a=e4m3:row:304:16 b=e4m3:col:304:16 d=bf16:row:72:16 acc=f32 blockScales=1x128,1x128 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x32x128 warpgroups=1x1 stages=2",
    ],
    [
      "a whole D of four panels beside promoted sums, by CTAs that store one tile while they multiply the next",
      "m=140 n=520 k=176 a=e4m3:row:176:16 b=e4m3:col:176:16 d=bf16:row:520:16 acc=f32 blockScales=1x128,128x128 alpha=1 beta=0 batch=grouped:4:offsets epilogue=none symbolic=m:4..140%4",
      "tile=128x256x128 stages=2 regs=40/232",
    ],
    [
      "a whole D of three panels",
      "m=140 n=392 k=304 a=e4m3:row:304:16 b=e4m3:col:304:16 d=bf16:row:392:16 acc=f32 blockScales=1x128,128x128 alpha=1 beta=0 batch=none epilogue=none",
      "tile=128x192x128 stages=3 regs=24/240",
    ],
    [
      "experts that begin at any row: threads load their factors of rows",
      "m=90 n=136 k=304 a=e4m3:row:304:16 b=e4m3:col:304:16 d=bf16:row:136:16 acc=f32 blockScales=1x128,128x128 alpha=1 beta=0 batch=grouped:4:offsets epilogue=none symbolic=m:1..90",
      "tile=64x96x128 warpgroups=1x1 stages=2",
    ],
    [
      "experts of whole 4 rows: factors with the stage, those of B by an expert's number, two runs in a chunk, a cluster",
      "m=140 n=72 k=304 a=e4m3:row:304:16 b=e5m2:col:304:16 d=bf16:row:72:16 acc=f32 blockScales=1x128,1x128 alpha=1 beta=0 batch=grouped:5:offsets epilogue=bias(n,f32) symbolic=m:4..140%4",
      "tile=64x32x256 warpgroups=1x1 stages=2 cluster=2x1",
    ],
    [
      "experts by counts: factors behind those of the expert before, sums in two parts of columns",
      "m=132 n=264 k=272 a=e4m3:row:272:16 b=e4m3:col:272:16 d=bf16:row:264:16 acc=f32 blockScales=1x128,128x128 alpha=1 beta=0 batch=grouped:3:counts epilogue=none symbolic=m:1..132",
      "tile=128x256x128 warpgroups=2x1 stages=3 regs=40/232",
    ],
    [
      "experts whose sums are promoted",
      "m=70 n=40 k=144 a=e5m2:row:144:16 b=e5m2:col:144:16 d=bf16:row:40:16 acc=f32 precision=promoted alpha=1 beta=0 batch=grouped:4:offsets epilogue=none symbolic=m:1..70",
      "tile=64x32x128 warpgroups=1x1 stages=2",
    ],
    [
      "operands that have changed places, tiles that D ends in, D by columns",
      "m=40 n=200 k=72 a=bf16:col:40:16 b=bf16:row:200:16 d=bf16:col:40:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=24x128x64 warpgroups=1x2 swapAB=on stages=2",
    ],
    [
      "the same of blocks that exchange slices of rows, with C and a bias",
      "m=13 n=136 k=136 a=f16:row:136:16 b=f16:col:136:16 c=f16:row:136:16 d=f16:row:136:16 acc=f32 alpha=1 beta=1 batch=none epilogue=bias(m,f32)",
      "tile=16x64x32 warpgroups=1x1 swapAB=on stages=2 sched=tiles split=2 reduction=cluster",
    ],
    [
      "the same of four pieces of columns, two of which pass through the tile at once",
      "m=16 n=264 k=80 a=bf16:row:80:16 b=bf16:col:80:16 d=bf16:row:264:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=16x256x32 warpgroups=1x1 swapAB=on stages=2 sched=tiles split=2 reduction=cluster",
    ],
    [
      "scales of 384 columns of weights, which come in boxes of 128",
      "m=70 n=32 k=128 a=bf16:row:128:16 b=s8:col:128:16 d=bf16:row:32:16 acc=f32 weights=32,zeros alpha=1 beta=0 batch=none epilogue=none symbolic=m",
      "tile=48x384x64 warpgroups=1x2 swapAB=on stages=2 cluster=1x2 sched=persistent epi=direct",
    ],
    [
      "ten blocks that meet in a cluster, by opt-in",
      "m=10 n=64 k=160 a=bf16:row:160:16 b=bf16:col:160:16 d=bf16:row:64:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
      "tile=64x64x16 warpgroups=1x1 stages=1 sched=tiles split=10 reduction=cluster epi=direct nonPortableCluster=on",
    ],
  ])("%s", (_name, problem, schedule) => {
    const subject = {
      problem: value(parseProblem(problem)),
      schedule: value(parseSchedule(wgmma.schedule, schedule)),
      target,
      seed: 1,
    };
    expect(checkCase(wgmma, subject, { emulator })).toEqual([]);
  });
});

test("instructions of operands that do not lie along k begin at a panel, side by side or not", () => {
  const random = createRandom(11);
  let beside = 0;
  for (let i = 0; i < 60; i++) {
    const problem = problemOf({
      m: 200,
      n: 400,
      k: 160,
      dtype: "f16",
      a: { layout: pick(random, ["row", "col"]) },
    });
    const schedule = randomSchedule(random, problem, target);
    const { buffers, body } = value(
      runPasses(wgmma.tile(problem, schedule, target), target, wgmma.passes, { verify: "ends" }),
    );
    const atom = eachStmt(body).flatMap((s) => (s.kind === "mma" ? findWarpgroupAtom(s.atom) : []))[0];
    const swapped = schedule.swapAB === "on";
    const tile = buffers.find((b) => b.name === "sB");
    // A tile of one panel has none by name.
    const panel = tile?.layout?.panels?.extent ?? tile?.shape[1] ?? 0;
    if (!String(schedule.warpgroups).endsWith(",1")) beside++;
    const text = printSchedule(wgmma.schedule, schedule);
    expect([text, (swapped ? 64 : (atom?.n ?? 1)) % panel]).toEqual([text, 0]);
    const first = buffers.find((b) => b.name === "sA");
    if (swapped && problem.a.layout === "col")
      expect([text, (atom?.n ?? 1) % (first?.layout?.panels?.extent ?? first?.shape[0] ?? 0)]).toEqual([
        text,
        0,
      ]);
  }
  expect(beside).toBeGreaterThan(2);
});
