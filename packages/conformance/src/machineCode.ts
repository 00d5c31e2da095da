/** Machine code of a cubin, read without nvdisasm, which is not part of every toolkit. */
import { assembled } from "./assemble.ts";

/** Bytes of an instruction since sm_70. */
const BYTES = 16;

/** An instruction of 128 bits; its opcode is in bits 0 to 11. */
export interface Instruction {
  readonly low: bigint;
  readonly high: bigint;
}

/** The instructions of the kernels in a 64-bit ELF image, one kernel behind the other; branches are relative, and stay within theirs. Throws when there are none. */
export function machineCode(cubin: Buffer): readonly Instruction[] {
  const sections = Number(cubin.readBigUInt64LE(40));
  const [size, count, names] = [58, 60, 62].map((at) => cubin.readUInt16LE(at));
  if (size === undefined || count === undefined || names === undefined) throw new RangeError("no ELF header");
  const field = (section: number, at: number): number =>
    Number(cubin.readBigUInt64LE(sections + section * size + at));
  const strings = field(names, 24);
  const found: Instruction[] = [];
  for (let i = 0; i < count; i++) {
    const name = strings + cubin.readUInt32LE(sections + i * size);
    if (cubin.toString("latin1", name, name + 6) !== ".text.") continue;
    const text = cubin.subarray(field(i, 24), field(i, 24) + field(i, 32));
    for (let at = 0; at < text.length; at += BYTES)
      found.push({ low: text.readBigUInt64LE(at), high: text.readBigUInt64LE(at + 8) });
  }
  if (found.length === 0) throw new RangeError("the image has no .text section");
  return found;
}

/** HGMMA (16-bit and tf32), IGMMA (integers) and QGMMA (8-bit floats), as ptxas 13.0 encodes them: found by compiling kernels of each. */
const PRODUCTS: readonly bigint[] = [0x9f0n, 0x9f1n, 0x9f3n];
/** WARPGROUP.ARRIVE and WARPGROUP.DEPBAR share an opcode; this bit tells them apart. */
const WARPGROUP = 0x9c5n;
const IS_DEPBAR = 1n << 47n;

/** Matrix instructions of warpgroups, what begins a row of them, and waits for them. */
export interface WarpgroupCode {
  readonly products: number;
  readonly arrives: number;
  readonly waits: number;
}

/**
 * What ptxas made of the warpgroup instructions of a text, and what the text asks for: `wgmma.mma_async`, `wgmma.fence` and `wgmma.wait_group`. More waits than
 * asked for would mean that products are serialised. Throws where ptxas refuses the text.
 */
export function warpgroupCode(
  ptx: string,
  arch: string,
): { readonly made: WarpgroupCode; readonly asked: WarpgroupCode } {
  const code = machineCode(assembled(ptx, arch));
  const count = (is: (one: Instruction) => boolean): number => code.filter(is).length;
  const opcode = ({ low }: Instruction): bigint => low & 0xfffn;
  const depends = ({ low }: Instruction): boolean => (low & IS_DEPBAR) !== 0n;
  const named = (mnemonic: string): number => ptx.split(`${mnemonic}.`).length - 1;
  return {
    made: {
      products: count((one) => PRODUCTS.includes(opcode(one))),
      arrives: count((one) => opcode(one) === WARPGROUP && !depends(one)),
      waits: count((one) => opcode(one) === WARPGROUP && depends(one)),
    },
    asked: {
      products: named("wgmma.mma_async"),
      arrives: named("wgmma.fence"),
      waits: named("wgmma.wait_group"),
    },
  };
}
