/**
 * The address part of a memory instruction in generated code: from the operand to a byte offset in the arena, with the
 * checks of bounds, alignment and initialisation. One comparison of the shadow decides the usual case; everything else
 * calls the machine's slow path, which reports and returns where to go on (the sink, when the access must not happen).
 */
import type { AddressOperand, Operand } from "../load/types.ts";
import { globalTag } from "../memory/arena.ts";
import type { LaneEmitter } from "./emitter.ts";

export type Space = "global" | "shared" | "cluster" | "local" | "param" | "const" | "generic";
/** `atomic` reads and writes. */
export type AccessMode = "read" | "write" | "atomic";

/** Codes of modes in calls from generated code. */
const modeCode: Readonly<Record<AccessMode, number>> = { read: 0, write: 1, atomic: 2 };

/** How strong an access is, for the race checker: bits of a code, above which stands the scope of a strong one. */
export const strength = { weak: 0, strong: 1, acquire: 2, release: 4, atomic: 8, nonCoherent: 64 } as const;
export const scopes = ["cta", "cluster", "gpu", "sys"] as const;
/** Place of the scope, as its number in `scopes`, in a code of strength. */
export const scopeShift = 4;
/** `strength` with a scope; accesses that name none (volatile, atom) have that of the device or more. */
export const withScope = (bits: number, scope: (typeof scopes)[number] | null): number =>
  bits === strength.weak ? bits : bits | (scopes.indexOf(scope ?? "gpu") << scopeShift);

/** Condition under which the shadow of `size` bytes at arena offset `x` is not "allocated and initialised". */
function shadowFails(x: string, size: number): string {
  switch (size) {
    case 1:
      return `(SH[${x}>>2]>>>(${x}&3)&17)!==17`;
    case 2:
      return `(SH[${x}>>2]>>>(${x}&2)&51)!==51`;
    case 4:
      return `SH[${x}>>2]!==255`;
    case 8:
      return `SH16[${x}>>3]!==65535`;
    case 16:
      return `SH32[${x}>>4]!==-1`;
    default:
      return `SH32[${x}>>4]!==-1||SH32[(${x}>>4)+1]!==-1`;
  }
}

/**
 * Statements that leave the arena offset of an access in the returned variable.
 *
 * @param size bytes of the whole access (a vector counts whole): 1, 2, 4, 8, 16 or 32.
 * @param strong bits of `strength`.
 */
export function emitAccess(
  e: LaneEmitter,
  space: Space,
  address: AddressOperand,
  size: number,
  mode: AccessMode,
  strong: number,
): { readonly code: string; readonly offset: string } {
  const index = e.instruction.index;
  const x = e.temporary();
  const kind = modeCode[mode];
  const add = address.offset === 0 ? "" : `+${address.offset}`;
  const misaligned = size === 1 ? "" : `(${x}&${size - 1})!==0||`;
  const noted = e.polls && mode !== "write" ? `polled(${x},${size});` : "";
  const observed = e.options.observe ? `observe(w,${x},${size},${index},${kind});` : "";
  switch (space) {
    case "shared":
    case "cluster": {
      const [low, high] = e.pair(address.base);
      const a = e.temporary();
      const stray = high === "0" ? "" : `||${high}!==0`;
      // The window's base carries the block's rank in its top byte, so another block's address falls outside.
      let code = `const ${a}=(${low}${add})|0;let ${x}=(${a}-ab)|0;`;
      const fault =
        space === "shared"
          ? `sharedFault(w,l,${index},${a},${high},${size})`
          : `slowCluster(w,l,${index},${a},${high},${size},${kind})`;
      code += `if(${misaligned}(${x}>>>0)>sl-${size}${stray})${x}=${fault};`;
      code += `else{${x}+=sb;if(${shadowFails(x, size)})${x}=slowShared(w,l,${index},${x},${size},${kind});}`;
      if (e.options.race) {
        code +=
          strong !== 0
            ? `raceStrong(w,l,${x},${size},${index},${kind},${strong});`
            : mode !== "read"
              ? `raceWrite(w,l,${x},${size},${index});`
              : e.gathersReads && size >= 4
                ? follow(e, "shared", x, size, kind, strong, false)
                : `raceRead(w,l,${x},${size},${index});`;
      }
      if (size >= 4) {
        const place = e.sampled.length * 32;
        e.sampled.push({ index, bytes: size });
        code += `if(bk>=0)BK[bk+${place}+l]=${a};`;
      }
      return { code: code + noted + observed, offset: x };
    }
    case "global":
    case "const":
    case "generic": {
      const [low, high] = e.pair(address.base);
      const name = space === "generic" ? "slowGeneric" : "slowGlobal";
      const h = e.temporary();
      let code = `const ${h}=${high};let ${x}=(${low}${add})|0;`;
      const extra = space === "generic" ? `,${strong}` : "";
      code += `if(${h}!==${globalTag}||${misaligned}(${x}>>>0)>gt-${size}||${shadowFails(x, size)})${x}=${name}(w,l,${index},${x},${h},${size},${kind}${extra});`;
      if (e.options.race && space !== "const") {
        const followed = e.options.global || (strong & strength.strong) !== 0;
        const tell = followed ? follow(e, "global", x, size, kind, strong, space === "generic") : "";
        code += space === "generic" && tell !== "" ? `if(${h}===${globalTag}){${tell}}` : tell;
      }
      return { code: code + noted + observed, offset: x };
    }
    case "local": {
      const [low] = e.pair(address.base);
      let code = `let ${x}=(${low}${add})|0;`;
      code += `if(${misaligned}(${x}>>>0)>ls-${size})${x}=windowFault(w,l,${index},${x},${size},"local");`;
      code += `else{${x}+=w.localBase+l*ls;if(${shadowFails(x, size)})${x}=slowLocal(w,l,${index},${x},${size},${kind});}`;
      return { code, offset: x };
    }
    case "param": {
      const [low] = e.pair(address.base);
      let code = `let ${x}=(${low}${add})|0;`;
      code += `if(${misaligned}(${x}>>>0)>ps-${size})${x}=windowFault(w,l,${index},${x},${size},"param");else ${x}+=pb;`;
      return { code, offset: x };
    }
  }
}

/** Note an access, which the race checker is told of at the end of the region, for all lanes at once: where, and what a write replaces. */
function follow(
  e: LaneEmitter,
  space: "global" | "shared",
  x: string,
  size: number,
  mode: number,
  strong: number,
  generic: boolean,
): string {
  const place = e.followed.length;
  // Whether a store changes the word is told by what it replaces; an atomic counts in any case.
  const words = mode === 0 || (strong & strength.atomic) !== 0 ? 0 : (size + 3) >> 2;
  const old = e.replacedWords;
  const some = generic || e.instruction.guard !== null;
  e.followed.push({ space, index: e.instruction.index, size, mode, strong, old, some });
  e.replacedWords += 32 * words;
  const kept = Array.from({ length: words }, (_, k) => `OLD[${old + 32 * k}+l]=R[(${x}>>2)+${k}];`).join("");
  return `${some ? `f${place}|=1<<l;` : ""}PLACE[${32 * place}+l]=${x};${kept}`;
}

/** Statement that puts the element at byte `at` past offset `x` into a register, extended to the register's width. */
export function emitLoadElement(e: LaneEmitter, to: Operand, type: string, x: string, at: number): string {
  if (to.kind === "sink") return "";
  const cls = to.kind === "register" ? to.register.cls : "i32";
  const width = to.kind === "register" ? to.register.bits : 32;
  const signed = type.startsWith("s");
  const index = (shift: number): string => (at === 0 ? `${x}>>${shift}` : `(${x}>>${shift})+${at >> shift}`);
  const extend = (value: string): string => {
    if (width === 64) {
      const t = e.temporary();
      return `const ${t}=${value};${e.setPair(to, t, signed ? `${t}>>31` : "0")}`;
    }
    return width === 16 && signed ? e.setInt(to, `${value}&65535`) : e.setInt(to, value);
  };
  switch (type.replace(/^[a-z]+/, "")) {
    case "8":
      return extend(`${signed ? "SB" : "B"}[${index(0)}]`);
    case "16":
      return extend(`${signed ? "SHALF" : "H"}[${index(1)}]`);
    case "32":
    case "32x2":
      if (cls === "f32") return e.setF32(to, `F[${index(2)}]`);
      return extend(`R[${index(2)}]`);
    default:
      if (cls === "f64") return e.setF64(to, `D[${index(3)}]`);
      return e.setPair(to, `R[${index(2)}]`, `R[(${x}>>2)+${(at >> 2) + 1}]`);
  }
}

/** Statement that stores a register's low bits at byte `at` past offset `x`. */
export function emitStoreElement(e: LaneEmitter, from: Operand, type: string, x: string, at: number): string {
  const cls = from.kind === "register" ? from.register.cls : "i32";
  const index = (shift: number): string => (at === 0 ? `${x}>>${shift}` : `(${x}>>${shift})+${at >> shift}`);
  switch (type.replace(/^[a-z]+/, "")) {
    case "8":
      return `B[${index(0)}]=${e.int(from, 1)};`;
    case "16":
      return `H[${index(1)}]=${e.int(from, 3)};`;
    case "32":
      if (cls === "f32") {
        // The machine's only NaN from arithmetic is 0x7fffffff; JavaScript's has other bits.
        const value = e.f32(from);
        return `F[${index(2)}]=${value};R[${index(2)}]=${value}===${value}?R[${index(2)}]:2147483647;`;
      }
      if (from.kind === "immediate" && type === "f32") return `R[${index(2)}]=floatBits(${e.f32(from)});`;
      return `R[${index(2)}]=${e.int(from)};`;
    default: {
      if (cls === "f64") return `D[${index(3)}]=${e.f64(from)};`;
      const [low, high] = e.pair(from);
      return `R[${index(2)}]=${low};R[(${x}>>2)+${(at >> 2) + 1}]=${high};`;
    }
  }
}
