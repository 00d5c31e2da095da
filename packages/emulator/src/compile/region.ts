/**
 * Regions as JavaScript functions: lane-major, one loop over the warp's lanes round a whole run of instructions. Legal
 * because lanes of a warp are unordered between the points where they have to meet, and those end regions.
 */
import type { Instruction, Kernel, Register } from "../load/types.ts";
import type { Warp } from "../machine/state.ts";
import { type Block, isStrong, type Piece } from "./blocks.ts";
import { type CompileOptions, LaneEmitter } from "./emitter.ts";
import type { Environment } from "./environment.ts";
import { liveAfterPieces } from "./liveness.ts";
import { emitVectorRun } from "./vector.ts";
import { instantiate, type WasmMemory } from "./wasm.ts";

type RegionFunction = (warp: Warp, mask: number) => void;

export interface CompiledRegion {
  readonly run: RegionFunction;
  /** Shared accesses that the region records when the warp is sampled. */
  readonly sampled: readonly { readonly index: number; readonly bytes: number }[];
}

/** Fields of the warp that regions read, by the local name they get. */
const warpFields: Readonly<Record<string, string>> = {
  sb: "w.sharedBase",
  ab: "w.sharedAddress",
  sl: "w.sharedSize",
  gt: "w.globalTop",
  ls: "w.localStride",
  pb: "w.paramBase",
  ps: "w.paramSize",
  bk: "w.bank",
};

const identifiers = (text: string): ReadonlySet<string> => new Set(text.match(/[A-Za-z_$][\w$]*/g) ?? []);

/** Whether an instruction may write shared memory, or hands over clocks. */
const mayWriteShared = (instruction: Instruction): boolean =>
  isStrong(instruction) ||
  ((instruction.traffic?.written ?? 0) > 0 && !/\.(global|local)\b/.test(instruction.mnemonic));

function regionSource(
  instructions: Extract<Piece, { kind: "region" }>["instructions"],
  options: CompileOptions,
  polls: boolean,
  liveAfter: (register: Register) => boolean,
): {
  readonly source: string;
  /** All names in it. */
  readonly used: ReadonlySet<string>;
  readonly constants: string;
  readonly sampled: CompiledRegion["sampled"];
} {
  const emitter = new LaneEmitter(options, polls, !instructions.some(mayWriteShared));
  let counters = "";
  let flush = "";
  let constants = "";
  const statements = instructions.map((instruction) => {
    let extra = "";
    if (instruction.guard !== null && instruction.traffic !== null) {
      // A guarded access moves bytes only in the lanes that take it.
      const name = `n${instruction.index}`;
      counters += `let ${name}=0;`;
      flush += `TALLY[${instruction.index}]+=${name};`;
      extra = `${name}++;`;
    }
    return emitter.statement(instruction, extra);
  });
  emitter.followed.forEach(({ space, index, size, mode, strong, old, some }, k) => {
    const call = (lanes: string): string =>
      space === "shared"
        ? `raceReads(w,${lanes},${32 * k},${size},${index});`
        : `globalLanes(w,${lanes},a${index}_${k});`;
    if (space === "global")
      constants += `const a${index}_${k}={at:${32 * k},old:${old},size:${size},site:${index},mode:${mode},bits:${strong}};`;
    if (some) counters += `let f${k}=0;`;
    flush += some ? `if(f${k}!==0)${call(`f${k}`)}` : call("mask");
  });
  const body = statements.join("\n");
  const { before, after } = emitter.frame(liveAfter);
  const used = identifiers(`${body}${before}${after}${flush}`);
  const fields = Object.entries(warpFields)
    .filter(([name]) => used.has(name))
    .map(([name, value]) => `const ${name}=${value};`)
    .join("");
  // Temporaries of the exact fused multiply-add.
  const fma = used.has("bb") ? "let p=0.5,s=0.5,f=0.5,d=0.5,t=0.5,bb=0.5,e=0.5;" : "";
  const source =
    `(w,mask)=>{const rb=w.registers;${fields}${counters}${fma}` +
    `for(let l=0;l<32;l++){if(((mask>>>l)&1)===0)continue;const b=rb+l;${before}\n${body}\n${after}}${flush}}`;
  return { source, used, constants, sampled: emitter.sampled };
}

function compileVectors(
  pieces: readonly Extract<Piece, { kind: "region" }>[],
  live: ReadonlyMap<object, (register: Register) => boolean>,
  memory: WasmMemory | null,
): ReadonlyMap<Piece, (base: number) => void> {
  const vectors = pieces.filter((piece) => piece.vector);
  if (memory === null || vectors.length === 0) return new Map();
  const code = vectors.map((piece) => emitVectorRun(piece.instructions, live.get(piece) ?? (() => true)));
  const functions = instantiate(code, memory) ?? [];
  return new Map(
    vectors.flatMap((piece, k) => {
      const run = functions[k];
      return run === undefined ? [] : [[piece, run] as const];
    }),
  );
}

/** A kernel's regions as a script: compiled once, linked to each state of the arena. */
export interface RegionScript {
  /** Link to an environment whose views are current. The result is keyed by piece. */
  link(environment: Environment): ReadonlyMap<Piece, CompiledRegion>;
}

/**
 * Compile all regions of a kernel in one script. Linking again is cheap: V8 keeps the functions' bytecode and what it has
 * learnt about them, and WebAssembly refers to the memory itself.
 *
 * @param names what the environment offers.
 */
export function compileRegions(
  kernel: Kernel,
  blocks: readonly Block[],
  options: CompileOptions,
  names: readonly string[],
  memory: WasmMemory | null,
): RegionScript {
  const live = liveAfterPieces(kernel, blocks);
  const pieces = blocks.flatMap((block) => block.pieces.filter((piece) => piece.kind === "region"));
  const polling = new Set<Piece>(blocks.flatMap((block) => (block.polls ? block.pieces : [])));
  const regions = pieces.map((piece) =>
    regionSource(piece.instructions, options, polling.has(piece), live.get(piece) ?? (() => true)),
  );
  const constants = regions.map((r) => r.constants).join("");
  const body = `${constants}return [${regions.map((r) => r.source).join(",\n")}];`;
  const imports = names.filter((name) => regions.some(({ used }) => used.has(name)));
  const factory = new Function("E", `"use strict";const {${imports.join(",")}}=E;${body}`) as (
    environment: Environment,
  ) => readonly RegionFunction[];
  const vectors = compileVectors(pieces, live, memory);
  return {
    link(environment) {
      const functions = factory(environment);
      const compiled = new Map<Piece, CompiledRegion>();
      pieces.forEach((piece, k) => {
        const lanes = functions[k];
        const region = regions[k];
        if (lanes === undefined || region === undefined) return;
        const vector = vectors.get(piece);
        // A warp with lanes missing must leave their registers alone: that is the JavaScript form's business.
        const run: RegionFunction =
          vector === undefined
            ? lanes
            : (warp, mask) => {
                if (mask === -1) vector(warp.registers * 4);
                else lanes(warp, mask);
              };
        compiled.set(piece, { run, sampled: region.sampled });
      });
      return compiled;
    },
  };
}
