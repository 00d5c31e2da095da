import { type Diagnostic, formatDiagnostic } from "@tilewright/core";
import { describe, expect, it } from "vitest";
import {
  parseProgramWithLocations,
  type Stage,
  stages,
  verifiers,
  verifyChunkCounts,
  verifyProgram,
} from "../../src/index.ts";
import { chunkCount, withChunkCount } from "../../src/tile/verify/chunks.ts";
import { edit, fixture, parse, type Variant } from "./support/fixtures.ts";
import { target } from "./support/pipelines.ts";

interface Rejected {
  readonly code: Diagnostic["code"];
  /** What is wrong, for the expectation file. */
  readonly what: string;
  readonly stage: Stage;
  readonly variant?: Variant;
  readonly edits: readonly (readonly [from: string, to: string])[];
}

const roles = (first: string, second: string): readonly (readonly [string, string])[] => [
  [
    "    fill %acc = 0\n",
    `    role load ${first} {\n      barrier 1\n    }\n    role math ${second} {\n      fill %acc = 0\n    }\n`,
  ],
];

const rejected: readonly Rejected[] = [
  {
    code: "TW3101",
    what: "loop variable hides an outer one",
    stage: "bound",
    edits: [
      ["for %kk = 0 .. 4", "for %kt = 0 .. 4"],
      ["%kk : 1]", "%kt : 1]"],
      ["%kk : 1, 0", "%kt : 1, 0"],
    ],
  },
  {
    code: "TW3102",
    what: "copy of unequal rectangles",
    stage: "staged",
    edits: [["copy %fA <- %sA[0 : 16, %kk : 1]", "copy %fA <- %sA[0 : 8, %kk : 1]"]],
  },
  {
    code: "TW3102",
    what: "mma with a wrong k",
    stage: "nest",
    edits: [["%B[%kt * 4 : 4,", "%B[%kt * 4 : 5,"]],
  },
  {
    code: "TW3102",
    what: "epilogue with another C",
    stage: "nest",
    edits: [["c %C[%mt * 16 : 16,", "c %C[%mt * 16 : 8,"]],
  },
  {
    code: "TW3158",
    what: "an accumulator that begins with what lies in its registers",
    stage: "bound",
    edits: [["    fill %acc = 0\n", ""]],
  },
  {
    code: "TW3158",
    what: "sums that are stored before the last product",
    stage: "nest",
    edits: [
      [
        " guard(rows, cols)\n",
        " guard(rows, cols)\n    mma %acc += %A[0 : 16, 0 : 4] * %B[0 : 4, 0 : 16] atom fma walk rows\n",
      ],
    ],
  },
  {
    code: "TW3159",
    what: "a chunk of K that is copied and not multiplied",
    stage: "staged",
    edits: [["for %kt = 0 .. 6", "for %kt = 0 .. 5"]],
  },
  {
    code: "TW3103",
    what: "fragment of another dtype",
    stage: "staged",
    edits: [["register %fA f32", "register %fA f16"]],
  },
  {
    code: "TW3103",
    what: "integer accumulator",
    stage: "nest",
    edits: [["register %acc f32", "register %acc s32"]],
  },
  {
    code: "TW3166",
    what: "a row's maximum of a tile with other rows",
    stage: "nest",
    edits: [
      ["  register %acc", "  register %top f32[4, 1]\n  register %acc"],
      ["    epilogue", "    reduce.row %top = max(%acc)\n    epilogue"],
    ],
  },
  {
    code: "TW3166",
    what: "a vote that leaves out a sum",
    stage: "specialised",
    edits: [
      ["  register %acc", "  register %top f32[16, 1]\n  register %acc"],
      ["    epilogue", "    vote %top unless one {\n      map %acc = %acc+%top\n    }\n    epilogue"],
    ],
  },
  {
    code: "TW3104",
    what: "unknown global buffer",
    stage: "nest",
    edits: [
      ["global %D", "global %E"],
      ["epilogue %D", "epilogue %E"],
    ],
  },
  {
    code: "TW3104",
    what: "strides other than the problem's",
    stage: "nest",
    edits: [["layout (20,21):(21,1)", "layout (20,21):(22,1)"]],
  },
  {
    code: "TW3104",
    what: "more alignment than the caller gives",
    stage: "nest",
    edits: [["(21,1) align 16", "(21,1) align 32"]],
  },
  {
    code: "TW3105",
    what: "slot beyond the last",
    stage: "pipelined",
    edits: [["copy %fA <- %sA[slot %kt % 3;", "copy %fA <- %sA[slot %kt % 4;"]],
  },
  {
    code: "TW3106",
    what: "rectangle beyond its tile",
    stage: "staged",
    edits: [["%sA[0 : 16, %kk : 1]", "%sA[0 : 16, %kk + 1 : 1]"]],
  },
  {
    code: "TW3106",
    what: "tail without a guard",
    stage: "staged",
    edits: [
      [
        "%A[%mt * 16 : 16, %kt * 4 : 4] transport cp.async guard(rows, cols)",
        "%A[%mt * 16 : 16, %kt * 4 : 4] transport cp.async guard(rows)",
      ],
    ],
  },
  {
    code: "TW3106",
    what: "a condition that does not keep the read inside",
    stage: "bound",
    edits: [
      ["guard(rows) when %pt < 6", "guard(rows) when %pt + 1 < 9"],
      ["%pt * 4 : 4] transport cp.async guard(rows)", "%pt * 20 : 4] transport cp.async guard(rows)"],
    ],
  },
  {
    code: "TW3107",
    what: "copy at stage nest",
    stage: "nest",
    edits: [["    fill %acc = 0\n", "    fill %acc = 0\n    copy %acc <- %acc\n"]],
  },
  {
    code: "TW3107",
    what: "ring without edges at stage specialised",
    stage: "specialised",
    edits: [[" full barrier:0 empty implied", ""]],
  },
  {
    code: "TW3107",
    what: "no nest and no owners",
    stage: "staged",
    edits: [
      ["  nest m (grid 2, warp 2, register 1:4, thread 4, register 2:2)\n", ""],
      ["  nest n (grid 2, warp 1, register 1:2, thread 8:4, register 2)\n", ""],
      ["  nest k (block 6, register 4)\n", ""],
    ],
  },
  {
    code: "TW3108",
    what: "directive left",
    stage: "bound",
    edits: [["  global %A", "  directive vector copy=2\n  global %A"]],
  },
  {
    code: "TW3108",
    what: "shared tile without layout",
    stage: "bound",
    edits: [[" layout (16,4):(1,24)", ""]],
  },
  {
    code: "TW3108",
    what: "fragment without owner",
    stage: "bound",
    edits: [
      [" own rows(warp 2, register 1:2, thread 4, register 2) cols(register 1)", ""],
      ["%kk : 1] vector 2:2", "%kk : 1]"],
    ],
  },
  {
    code: "TW3109",
    what: "more shared memory than a block has",
    stage: "staged",
    edits: [["shared %sB f32[4, 16]", "shared %big f32[1024, 64] align 16\n  shared %sB f32[4, 16]"]],
  },
  { code: "TW3110", what: "threads that are no warps", stage: "nest", edits: [["threads=64", "threads=70"]] },
  {
    code: "TW3110",
    what: "cluster where there are none",
    stage: "nest",
    edits: [["cluster=1x1", "cluster=2x1"]],
  },
  {
    code: "TW3111",
    what: "owner that does not cover the tile",
    stage: "bound",
    edits: [
      [
        "own rows(warp 2, register 1:4, thread 4, register 2:2)",
        "own rows(warp 2, register 1:4, thread 4, register 1:2)",
      ],
    ],
  },
  {
    code: "TW3111",
    what: "lanes that overlap",
    stage: "bound",
    edits: [
      [
        "cols(warp 1, register 1:2, thread 8:4, register 2)",
        "cols(warp 1, register 1:2, thread 8:2, register 2)",
      ],
    ],
  },
  {
    code: "TW3111",
    what: "registers with a gap",
    stage: "bound",
    edits: [["thread 4, register 2:2)", "thread 4, register 2:4)"]],
  },
  {
    code: "TW3172",
    what: "an atom of other fragments",
    stage: "bound",
    edits: [["atom fma", "atom m16n8k16.f32.f16.f16"]],
  },
  {
    code: "TW3111",
    what: "warps that there are not",
    stage: "bound",
    edits: [
      [
        "own rows(warp 2, register 1:4, thread 4, register 2:2)",
        "own rows(warp 2:2, register 1:4, thread 4, register 2:2)",
      ],
    ],
  },
  {
    code: "TW3111",
    what: "fragments that others multiply",
    stage: "bound",
    edits: [
      [
        "register %fB f32[1, 16] own rows(register 1:2) cols(warp 1, register 1:2, thread 8:4",
        "register %fB f32[1, 16] own rows(register 1:2) cols(warp 1, register 1:2, thread 8:1",
      ],
    ],
  },
  {
    code: "TW3111",
    what: "accumulator on half of the warps",
    stage: "bound",
    edits: [
      [
        "own rows(warp 2, register 1:4, thread 4, register 2:2)",
        "own rows(register 2:4, register 1:4, thread 4, register 2:2)",
      ],
    ],
  },
  {
    code: "TW3112",
    what: "layout that folds rows",
    stage: "bound",
    edits: [["(16,4):(1,24)", "(16,4):(1,8)"]],
  },
  {
    code: "TW3112",
    what: "layout of another shape",
    stage: "bound",
    edits: [["(16,4):(1,24)", "(16,5):(1,24)"]],
  },
  {
    code: "TW3112",
    what: "swizzle that splits elements",
    stage: "bound",
    edits: [["(16,4):(1,24)", "(16,4):(1,24) swizzle<1,1,3>"]],
  },
  {
    code: "TW3113",
    what: "vector across the grain",
    stage: "bound",
    variant: "direct",
    edits: [
      [
        "%A[%mt * 16 : 16, %pt * 4 : 4] guard(rows) when %pt < 6 dist(threads 64, along 4, vector 1, fastest cols)",
        "%A[%mt * 16 : 16, %pt * 4 : 4] guard(rows) when %pt < 6 dist(threads 64, along 4, vector 2, fastest rows) vector 2:1",
      ],
    ],
  },
  {
    code: "TW3113",
    what: "vector that straddles the edge",
    stage: "bound",
    edits: [
      [
        "when %kt + 2 < 6 dist(threads 64, along 4, vector 1, fastest cols)",
        "when %kt + 2 < 6 dist(threads 64, along 4, vector 4, fastest cols) vector 4:4",
      ],
    ],
  },
  {
    code: "TW3113",
    what: "vector longer than a thread's run",
    stage: "bound",
    edits: [["%kk : 1] vector 2:2", "%kk : 1] vector 4:4"]],
  },
  {
    code: "TW3113",
    what: "cp.async of eight elements",
    stage: "bound",
    edits: [["vector 2, fastest cols) vector 2:2", "vector 8, fastest cols) vector 8:8"]],
  },
  {
    code: "TW3114",
    what: "vectors that do not divide the tile",
    stage: "bound",
    edits: [["along 16, vector 2, fastest cols) vector 2:2", "along 16, vector 3, fastest cols)"]],
  },
  {
    code: "TW3114",
    what: "more threads than there are",
    stage: "bound",
    edits: [["dist(threads 64, along 4", "dist(threads 128, along 4"]],
  },
  {
    code: "TW3114",
    what: "rows of threads that do not divide them",
    stage: "bound",
    edits: [["dist(threads 64, along 4", "dist(threads 64, along 5"]],
  },
  {
    code: "TW3114",
    what: "split copy that changes hands",
    stage: "bound",
    variant: "direct",
    edits: [
      [
        "<- %rA when %kt + 1 < 6 dist(threads 64, along 4,",
        "<- %rA when %kt + 1 < 6 dist(threads 64, along 2,",
      ],
    ],
  },
  {
    code: "TW3115",
    what: "warps without a role",
    stage: "bound",
    edits: roles("first 0 warps 1", "first 2 warps 1"),
  },
  {
    code: "TW3115",
    what: "warps with two roles",
    stage: "bound",
    edits: roles("first 0 warps 2", "first 1 warps 1"),
  },
  {
    code: "TW3115",
    what: "register budget of one warp",
    stage: "bound",
    edits: roles("first 0 warps 1 registers 20", "first 1 warps 1"),
  },
  { code: "TW3115", what: "barrier 16", stage: "bound", edits: [["full barrier:0", "full barrier:16"]] },
  {
    code: "TW3116",
    what: "ring with other slots than its buffers",
    stage: "pipelined",
    edits: [["%sA f32[16, 4] slots 3", "%sA f32[16, 4] slots 4"]],
  },
  {
    code: "TW3116",
    what: "copied chunks that are carried on",
    stage: "pipelined",
    edits: [["ring %ring slots 3 buffers", "ring %ring slots 3 carried buffers"]],
  },
  {
    code: "TW3116",
    what: "copy by another transport than the ring's",
    stage: "pipelined",
    edits: [["transport cp.async guard(rows, cols) when %pt", "guard(rows, cols) when %pt"]],
  },
  {
    code: "TW3117",
    what: "wait that lets its own chunk be in flight",
    stage: "pipelined",
    edits: [["wait %ring @ %kt pending 1", "wait %ring @ %kt pending 2"]],
  },
  {
    code: "TW3117",
    what: "wait for what nobody commits",
    stage: "pipelined",
    edits: [["wait %ring @ %kt pending", "wait %ring @ %kt + 2 pending"]],
  },
  {
    code: "TW3117",
    what: "slot taken before it is released",
    stage: "pipelined",
    edits: [["      release %ring @ %kt\n", ""]],
  },
  {
    code: "TW3117",
    what: "chunk released out of order",
    stage: "pipelined",
    edits: [["release %ring @ %kt", "release %ring @ %kt + 1"]],
  },
  {
    code: "TW3117",
    what: "chunk never committed",
    stage: "pipelined",
    edits: [["      commit %ring @ %kt + 2\n", ""]],
  },
  {
    code: "TW3117",
    what: "read of the wrong slot",
    stage: "pipelined",
    edits: [["copy %fA <- %sA[slot %kt % 3;", "copy %fA <- %sA[slot (%kt + 1) % 3;"]],
  },
  {
    code: "TW3117",
    what: "write into a slot that is being read",
    stage: "pipelined",
    edits: [["copy %sA[slot (%kt + 2) % 3]", "copy %sA[slot %kt % 3]"]],
  },
  {
    code: "TW3117",
    what: "copy in flight at the end",
    stage: "pipelined",
    edits: [["for %kt = 0 .. 6 {", "for %kt = 0 .. 5 {"]],
  },
  {
    code: "TW3117",
    what: "implied edge without a barrier",
    stage: "bound",
    edits: [
      [
        "slots 3 buffers(%sA, %sB) transport cp.async full barrier:0",
        "slots 3 buffers(%sA, %sB) transport cp.async full implied",
      ],
    ],
  },
  {
    code: "TW3117",
    what: "implied empty edge of a ring with one slot",
    stage: "bound",
    variant: "single",
    edits: [["empty barrier:0", "empty implied"]],
  },
  { code: "TW3118", what: "another architecture", stage: "nest", edits: [["arch sm_80", "arch sm_90"]] },
  {
    code: "TW3118",
    what: "tma before there was one",
    stage: "staged",
    edits: [["transport cp.async", "transport tma"]],
  },
  { code: "TW3119", what: "tiles that leave columns out", stage: "nest", edits: [["%nt < 2", "%nt < 1"]] },
  {
    code: "TW3119",
    what: "tiles that overlap",
    stage: "nest",
    edits: [["epilogue %D[%mt * 16 : 16,", "epilogue %D[%mt * 8 : 16,"]],
  },
  ...(
    [
      ["parts in a loop, of tiles that are nearer than the loop goes", "%mt * 15 + %ct * 8"],
      ["parts in a loop that overlap", "%mt * 16 + %ct * 4"],
      ["parts in a loop that leave rows out", "%mt * 18 + %ct * 10"],
      ["parts in a loop that begin where the other axis says", "%nt * 16 + %ct * 8"],
    ] as const
  ).map(
    ([what, row]): Rejected => ({
      ...{ code: "TW3119", what, stage: "nest" },
      edits: [
        [
          "    epilogue %D[%mt * 16 : 16, %nt * 16 : 16] <- %acc ",
          `    for %ct = 0 .. 2 {\n    epilogue %D[${row} : 8, %nt * 16 : 16] <- %acc[%ct * 8 : 8, 0 : 16] `,
        ],
        ["c %C[%mt * 16 : 16,", `c %C[${row} : 8,`],
        ["  }\n}", "  }\n  }\n}"],
      ],
    }),
  ),
  {
    code: "TW3120",
    what: "beta without C",
    stage: "nest",
    edits: [[" c %C[%mt * 16 : 16, %nt * 16 : 16]", ""]],
  },
  {
    code: "TW3120",
    what: "adding to a D that the problem stores",
    stage: "nest",
    edits: [["<- %acc c %C", "<- %acc adds c %C"]],
  },
  {
    code: "TW3120",
    what: "alpha that no launch gives",
    stage: "nest",
    edits: [["alpha 1 beta 2 guard", "alpha runtime beta 2 guard"]],
  },
  {
    code: "TW3122",
    what: "blocks of a tile that all store it",
    stage: "nest",
    edits: [["%nt < 2", "%nt < 2, split %st < 2"]],
  },
  {
    code: "TW3122",
    what: "combine of one block's own tile",
    stage: "nest",
    edits: [["    epilogue", "    reduce %acc {\n    }\n    epilogue"]],
  },
  {
    code: "TW3122",
    what: "blocks that meet in every chunk",
    stage: "nest",
    edits: [
      ["%nt < 2", "%nt < 2, split %st < 2"],
      ["      mma", "      reduce %acc {\n      }\n      mma"],
    ],
  },
  {
    code: "TW3122",
    what: "a second kernel that computes more than an epilogue",
    stage: "nest",
    edits: [
      ["%nt < 2", "%nt < 2, split %st < 2"],
      ["    epilogue", "    reduce %acc by kernel {\n      fill %acc = 0\n    }\n    epilogue"],
    ],
  },
  {
    code: "TW3122",
    what: "a cluster whose blocks have no slices",
    stage: "nest",
    edits: [
      ["%nt < 2", "%nt < 2, split %st < 2"],
      ["    epilogue", "    reduce %acc by cluster {\n    }\n    epilogue"],
    ],
  },
  {
    code: "TW3140",
    what: "a split whose blocks all do the whole K",
    stage: "nest",
    edits: [
      ["%nt < 2", "%nt < 2, split %st < 2"],
      ["    epilogue", "    reduce %acc {\n    epilogue"],
      [" guard(rows, cols)\n  }", " guard(rows, cols)\n    }\n  }"],
    ],
  },
  {
    code: "TW3122",
    what: "shares of more tiles than there are, and of chunks that no loop asks for",
    stage: "nest",
    edits: [["%nt < 2", "%nt < 2, streamk %k0, %kn < 4 by 3 tiles 100"]],
  },
  {
    code: "TW3123",
    what: "copy shared in a cluster that has one block and no bulk copies",
    stage: "bound",
    edits: [
      ["transport cp.async guard(rows) when %pt", "transport cp.async guard(rows) multicast n when %pt"],
    ],
  },
  {
    code: "TW3115",
    what: "a role in a condition",
    stage: "bound",
    edits: [
      [
        "    fill %acc = 0\n",
        "    if %mt < 1 {\n      role load first 0 warps 2 {\n        barrier 1\n      }\n    }\n    fill %acc = 0\n",
      ],
    ],
  },
  {
    code: "TW3115",
    what: "work tiles in a loop",
    stage: "bound",
    edits: [
      ["  tiles %mt", "  for %again = 0 .. 1 {\n  tiles %mt"],
      ["  }\n}", "  }\n  }\n}"],
    ],
  },
  {
    code: "TW3122",
    what: "persistent CTAs that divide the K of their tiles",
    stage: "bound",
    edits: [["%nt < 2 raster row", "%nt < 2, split %s < 2 raster row persistent %vt by stride"]],
  },
  {
    code: "TW3124",
    what: "block without roles that stays",
    stage: "bound",
    edits: [["%nt < 2 raster row", "%nt < 2 raster row persistent %vt by stride"]],
  },
  {
    code: "TW3124",
    what: "ping-pong role that goes through tiles in a zigzag",
    stage: "bound",
    edits: [["%nt < 2 raster row", "%nt < 2 raster row persistent %vt by zigzag pingPong 0 of 2"]],
  },
  {
    code: "TW3130",
    what: "tensor tile with more rows than there are lanes",
    stage: "bound",
    edits: [["  shared %sB", "  tensor %sums f32[256, 16] layout (256,16):(65536,1)\n  shared %sB"]],
  },
  {
    code: "TW3131",
    what: "question about tiles outside a loop that follows its answers",
    stage: "bound",
    edits: [["    epilogue", "    request %ring @ 0\n    epilogue"]],
  },
  {
    code: "TW3107",
    what: "place before the stage that has them",
    stage: "bound",
    edits: [["  shared %sA f32", "  shared %sA @0 f32"]],
  },
  {
    code: "TW3135",
    what: "shared tile that begins anywhere",
    stage: "staged",
    edits: [["shared %sB f32[4, 16] align 16", "shared %sB f32[4, 16] align 0"]],
  },
  {
    code: "TW3135",
    what: "a nest whose tile no block holds",
    stage: "staged",
    edits: [["register 1:4", "register 2147483647:4"]],
  },
  {
    code: "TW3135",
    what: "zeros that are no number of the accumulator",
    stage: "nest",
    edits: [["fill %acc = 0", "fill %acc = 99999999999999"]],
  },
  {
    code: "TW3135",
    what: "more chunks than K has elements",
    stage: "nest",
    edits: [["%nt < 2", "%nt < 2, streamk %k0, %kn < 1000000 by 2 tiles 4"]],
  },
  {
    code: "TW3135",
    what: "loop beyond 32 bits",
    stage: "nest",
    edits: [
      ["tiles %mt < 2,", "tiles %mt < 2147483647,"],
      ["for %kt = 0 .. 6", "for %kt = 0 .. %mt * 4"],
    ],
  },
  {
    code: "TW3135",
    what: "loops within each other unrolled too often",
    stage: "nest",
    edits: [["for %kt = 0 .. 6", "for %kt = 0 .. 4097 unroll"]],
  },
  {
    code: "TW3135",
    what: "ring of more slots than there are",
    stage: "bound",
    edits: [["ring %ring slots 3", "ring %ring slots 65"]],
  },
  {
    code: "TW3135",
    what: "tile of more elements than the memory has",
    stage: "nest",
    edits: [
      ["register %acc f32[16, 16]", "register %acc f32[16, 16] slots 129\n  register %more f32[4096, 4096]"],
    ],
  },
  {
    code: "TW3135",
    what: "index beyond 32 bits",
    stage: "nest",
    edits: [["%kt * 4 : 4]", "%kt * 2147483647 : 4]"]],
  },
  {
    code: "TW3135",
    what: "alignment that is no power of two",
    stage: "nest",
    edits: [["align 16", "align 12"]],
  },
  {
    code: "TW3116",
    what: "part of a chunk copied twice",
    stage: "pipelined",
    edits: [
      [
        "      commit %ring",
        "      copy %sA[slot %pt % 3] <- %A[%mt * 16 : 16, %pt * 4 : 4] transport cp.async guard(rows, cols)\n      commit %ring",
      ],
    ],
  },
  {
    code: "TW3119",
    what: "epilogue in the loop over chunks",
    stage: "nest",
    edits: [
      ["    epilogue %D", "    for %again = 0 .. 2 {\n    epilogue %D"],
      ["  }\n}", "  }\n  }\n}"],
    ],
  },
  {
    code: "TW3136",
    what: "C's part that is not D's",
    stage: "nest",
    edits: [["c %C[%mt * 16", "c %C[%mt * 8"]],
  },
  {
    code: "TW3136",
    what: "grid of the nest that is not that of the tiles",
    stage: "nest",
    edits: [["nest m (grid 2", "nest m (grid 999999999"]],
  },
  {
    code: "TW3136",
    what: "nest of other tiles than the accumulator, and of more warps than threads",
    stage: "nest",
    edits: [["warp 2", "warp 4"]],
  },
  {
    code: "TW3136",
    what: "epilogue with other factors and steps than the problem's",
    stage: "nest",
    edits: [["alpha 1 beta 2", "alpha 3 beta 4 steps activation(relu)"]],
  },
  {
    code: "TW3160",
    what: "barriers that every thread initialises",
    stage: "machine",
    edits: [["  tiles", "  mbar.init %nothing\n  tiles"]],
  },
  {
    code: "TW3160",
    what: "threads, warps, barriers and roles that are not there, a grid that is waited for, a head in the tiles",
    stage: "machine",
    edits: [
      [
        "  tiles",
        "  only thread 4096 {\n    mbar.init %nothing\n  }\n  barrier 0 ahead 0 .. 9\n  prologue.at nobody\n  pdl.wait\n  tiles",
      ],
      ["      barrier 0", "      pdl.launch\n      barrier 0"],
    ],
  },
  {
    code: "TW3132",
    what: "shared tile without a place",
    stage: "machine",
    edits: [
      [
        "  shared %sB @352 f32[4, 16] slots 3 layout (4,16):(16,1) align 16 every 608",
        "  shared %sB f32[4, 16] slots 3 layout (4,16):(16,1) align 16",
      ],
    ],
  },
  {
    code: "TW3132",
    what: "mbarriers of no edge",
    stage: "machine",
    edits: [["  memory", "  mbar %ring_full @1824 slots 3\n  memory"]],
  },
  {
    code: "TW3107",
    what: "a product that overwrites before stage machine says which do",
    stage: "nest",
    edits: [["mma %acc +=", "mma %acc ="]],
  },
  {
    code: "TW3139",
    what: "parameters in another order",
    stage: "machine",
    edits: [
      [
        "  memory",
        "  kernel main @gemm grid(4, 1, 1) threads 64 workspace 0\n  param %b @8 pointer align 16 read\n  param %a @0 pointer align 16 read\n  param %c @16 pointer align 16 read\n  param %d @24 pointer align 16 write\n  memory",
      ],
    ],
  },
  {
    code: "TW3139",
    what: "arrays that lie otherwise than the problem says, or are none, and a size that no launch supplies",
    stage: "machine",
    edits: [
      [
        "  memory",
        "  size %m 1 .. 64\n  kernel main @gemm grid(4, 1, 1) threads 64 workspace 0\n  param %a @0 pointer align 16 read\n  param %b @8 pointer align 16 read\n  param %c @16 pointer align 16 read\n  param %d @24 pointer align 16 write\n  array %a f32 strides(7, 1)\n  array %b f32 strides(lda, 1) batch 4\n  array %sfa f32 strides(1, 1)\n  memory",
      ],
    ],
  },
  {
    code: "TW3113",
    what: "a distribution whose vectors the matrix does not have",
    stage: "bound",
    edits: [["along 4, vector 1, fastest cols", "along 4, vector 2, fastest cols"]],
  },
  {
    code: "TW3164",
    what: "a tile with gaps that bulk copies are to fill",
    stage: "bound",
    variant: "single",
    edits: [
      ["transport direct full barrier:0 empty barrier:0", "transport tma full mbarrier:1 empty barrier:0"],
      [
        "guard(rows, cols) dist(threads 64, along 4, vector 1, fastest cols)",
        "transport tma guard(rows, cols)",
      ],
      [
        "guard(rows, cols) dist(threads 64, along 16, vector 2, fastest cols) vector 2:2",
        "transport tma guard(rows, cols)",
      ],
    ],
  },
  {
    code: "TW3165",
    what: "stores that stand in no epilogue",
    stage: "machine",
    edits: [["    epilogue ", "    bulk.commit\n    epilogue "]],
  },
  {
    code: "TW3163",
    what: "a tile scheduler with more numbers than tiles",
    stage: "machine",
    edits: [["scheduler(unit 1, below ", "scheduler(unit 1, below 9"]],
  },
  {
    code: "TW3168",
    what: "a tile scheduler with groups and stream-K of one problem's tiles",
    stage: "machine",
    edits: [["scheduler(unit 1, ", "scheduler(unit 1, groups 3, streamk 2 whole, "]],
  },
  {
    code: "TW3169",
    what: "a counter and partial tiles of no reduction",
    stage: "machine",
    edits: [["    epilogue", "    partial.load %acc\n    counter.clear\n    epilogue"]],
  },
  {
    code: "TW3169",
    what: "rows of work tiles that clusters do not divide, and registers that come back from nowhere",
    stage: "machine",
    edits: [
      ["cluster=1x1", "cluster=3x1"],
      ["    epilogue", "    rename %acc back\n    epilogue"],
    ],
  },
  {
    code: "TW3171",
    what: "a slot that does not go round with the chunks",
    stage: "machine",
    edits: [["copy %fA <- %sA[slot %kt % 3;", "copy %fA <- %sA[slot %mt % 3;"]],
  },
  {
    code: "TW3171",
    what: "a first row that is a quotient",
    stage: "machine",
    edits: [["%A[%mt * 16 :", "%A[%mt / 2 * 16 :"]],
  },
  {
    code: "TW3118",
    what: "an instruction that there is not",
    stage: "machine",
    edits: [["atom fma", "atom m1n1k1.f32"]],
  },
  {
    code: "TW3167",
    what: "maps of groups of one problem",
    stage: "machine",
    edits: [["    fill %acc = 0", "    tensormap.make %A cols slots 3 at 0 every 384\n    fill %acc = 0"]],
  },
  {
    code: "TW3139",
    what: "parameter in another's place, and a size that no launch has",
    stage: "machine",
    edits: [
      [
        "  memory",
        "  kernel main @gemm grid(mm, 1, 1) threads 64 workspace 0\n  param %a @0 pointer align 16 read\n  param %b @4 pointer align 16 read\n  memory",
      ],
    ],
  },
  {
    code: "TW3133",
    what: "place that vectors cannot be copied to",
    stage: "machine",
    edits: [["%sB @352", "%sB @360"]],
  },
  {
    code: "TW3133",
    what: "place beyond the end",
    stage: "machine",
    edits: [["memory shared=1824", "memory shared=1600"]],
  },
  {
    code: "TW3138",
    what: "slots that are read before the block has met behind their copies",
    stage: "machine",
    edits: [["      barrier 0\n", ""]],
  },
  {
    code: "TW3138",
    what: "slots that are read while their copies are under way",
    stage: "machine",
    edits: [["      cp.async.wait pending 1\n", ""]],
  },
  {
    code: "TW3138",
    what: "copies behind the last chunk that nothing waits for",
    stage: "machine",
    edits: [
      [
        "%nt * 16 : 16] transport cp.async guard(rows, cols) when %kt + 2 < 6",
        "%nt * 16 : 16] transport cp.async guard(rows, cols) when %kt + 2 < 9",
      ],
    ],
  },
  {
    code: "TW3107",
    what: "a product of fragments that overwrites",
    stage: "machine",
    edits: [["mma %acc += %fA", "mma %acc = %fA"]],
  },
  {
    code: "TW3137",
    what: "pipeline at a stage that its ring does not have",
    stage: "machine",
    edits: [["    fill %acc = 0\n", "    pipeline %c of %ring stage 5 phase 0\n    fill %acc = 0\n"]],
  },
  {
    code: "TW3134",
    what: "tiles in each other's place",
    stage: "machine",
    edits: [["%sB @352", "%sB @336"]],
  },
  {
    code: "TW3121",
    what: "shared tile read without a barrier",
    stage: "bound",
    edits: [
      ["  shared %sB", "  shared %sX f32[16, 16] layout (16,16):(16,1) align 16\n  shared %sB"],
      ["    epilogue", "    copy %sX <- %acc\n    copy %acc <- %sX\n    epilogue"],
    ],
  },
];

const rejectedText = ({ stage, variant, edits }: Rejected): string =>
  edits.reduce((text, [from, to]) => edit(text, from, to), fixture(stage, variant));

describe("verifiers", () => {
  it.each(stages)("accept the programs of stage %s", (stage) => {
    for (const variant of ["direct", "cp.async", "single"] as const) {
      const program = parse(fixture(stage, variant));
      expect(verifyProgram(program, target("sm_80"))).toEqual([]);
      expect(verifyChunkCounts(program)).toEqual([]);
    }
  });

  it.each(rejected)("$code: $what", (fixtureRow) => {
    const parsed = parseProgramWithLocations(rejectedText(fixtureRow));
    if (!parsed.ok) throw new Error(parsed.error.map(formatDiagnostic).join("\n"));
    const found = verifyProgram(parsed.value.program, target("sm_80"), parsed.value.locations);
    expect(found.map((d) => d.code)).toContain(fixtureRow.code);
  });

  it("find sums in another dtype than the problem's", () => {
    const program = parse(fixture("bound"));
    const found = verifyProgram({ ...program, problem: { ...program.problem, acc: "f16" } }, target("sm_80"));
    expect(found.map(({ code, message }) => [code, message])).toEqual([
      ["TW3136", "adds up in %acc, which is f32, and the problem says acc=f16"],
    ]);
  });

  it("say what the expectation file says", async () => {
    const sections = rejected.map((row) => {
      const parsed = parseProgramWithLocations(rejectedText(row));
      if (!parsed.ok) throw new Error(parsed.error.map(formatDiagnostic).join("\n"));
      const found = verifyProgram(parsed.value.program, target("sm_80"), parsed.value.locations);
      const edits = row.edits.map(([from, to]) => `-${from.trim()}\n+${to.trim()}`).join("\n");
      return `## ${row.code}: ${row.what}\n\nstage ${row.stage}\n\n\`\`\`diff\n${edits}\n\`\`\`\n\n\`\`\`\n${found.map(formatDiagnostic).join("\n")}\n\`\`\`\n`;
    });
    await expect(sections.join("\n")).toMatchFileSnapshot("fixtures/verify.expect.md");
  });

  it("each have a fixture that they reject", () => {
    const codes = new Set(rejected.map((row) => row.code));
    // Names that do not resolve are refused by the parser; the verifier sees them in programs made by code.
    expect(verifiers.filter((v) => !codes.has(v.code)).map((v) => v.name)).toEqual([]);
  });

  it("find the wrong number of chunks although the program's own is right", () => {
    // The prologue fills two slots unconditionally: right for six chunks, wrong for one.
    const text = edit(edit(fixture("pipelined"), " when %pt < 6", ""), " when %pt < 6", "");
    const program = parse(text);
    expect(verifyProgram(program, target("sm_80"))).toEqual([]);
    expect(verifyChunkCounts(program).map((d) => d.message)).toEqual([
      "with 0 K chunks: chunk 0 of %ring is still in flight when the block ends",
      "with 1 K chunks: chunk 1 of %ring is still in flight when the block ends",
    ]);
  });
});

describe("the number of chunks", () => {
  const loop = (from: number, to: number): string => `for %kt = ${from} .. ${to} {`;
  const peeled = (cut: number): string => {
    const text = fixture("pipelined");
    const start = text.indexOf(`    ${loop(0, 6)}`);
    const end = text.indexOf("    epilogue");
    const body = text.slice(start, end);
    const parts = [body.replace(loop(0, 6), loop(0, cut)), body.replace(loop(0, 6), loop(cut, 6))];
    return text.slice(0, start) + parts.join("") + text.slice(end);
  };

  it.each([1, 2, 4, 5])("may be replaced in a loop that is cut at %i", (cut) => {
    const program = parse(peeled(cut));
    expect(verifyProgram(program, target("sm_80"))).toEqual([]);
    expect(chunkCount(program)).toBe(6);
    expect(verifyChunkCounts(program)).toEqual([]);
    const long = withChunkCount(program, 100);
    expect(long === null ? null : chunkCount(long)).toBe(100);
  });

  it("is not known where the loops do not follow each other", () => {
    expect(chunkCount(parse(edit(peeled(4), loop(4, 6), loop(3, 6))))).toBe(null);
    expect(chunkCount(parse(fixture("nest")))).toBe(null);
  });
});
