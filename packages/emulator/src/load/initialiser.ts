/** Initial bytes of module variables. */
import { f32FromBits, f64FromBits } from "@tilewright/core";
import type { Initialiser, VariableDecl } from "@tilewright/ptx";
import { bitsOf } from "../isa/row.ts";
import { globalTag } from "../memory/arena.ts";
import { Refusal } from "./refusal.ts";
import type { Scope } from "./scope.ts";

/** Write the initialiser of `decl` to `bytes`; what it does not cover stays zero. Variables must have their offsets. */
export function initialise(decl: VariableDecl, scope: Scope, bytes: Uint8Array): void {
  if (decl.initialiser === null) return;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const width = Math.max(1, bitsOf(decl.type) / 8);
  let at = 0;
  const put = (value: bigint): void => {
    if (at + width > bytes.length)
      throw new Refusal("TW5015", `the initialiser of ${decl.name} is longer than the variable`);
    for (let k = 0; k < width; k++) view.setUint8(at + k, Number((value >> BigInt(8 * k)) & 0xffn));
    at += width;
  };
  const address = (name: string, offset: bigint): bigint => {
    const entity = scope.find(name);
    if (entity?.kind === "function") return entity.address;
    if (
      entity?.kind !== "variable" ||
      (entity.variable.space !== "global" && entity.variable.space !== "const")
    )
      throw new Refusal(
        "TW5015",
        `${decl.name} is initialised with the address of ${name}, which is no global variable or function`,
      );
    return (BigInt(globalTag) << 32n) + BigInt(entity.variable.offset) + offset;
  };
  const walk = (item: Initialiser): void => {
    switch (item.kind) {
      case "list":
        // Inner lists start at multiples of their row: PTX requires them complete, so plain order is right.
        for (const element of item.elements) walk(element);
        return;
      case "generic":
        put(address(item.value.name, item.value.offset));
        return;
      case "masked": {
        const shift = BigInt(item.mask.toString(2).length - item.mask.toString(2).lastIndexOf("1") - 1);
        put((address(item.value.name, item.value.offset) & item.mask) >> shift);
        return;
      }
      case "value": {
        const { value } = item;
        if (value.kind === "integer") put(value.value);
        else if (value.kind === "symbol") put(address(value.name, value.offset));
        else put(floatBits(value.format, value.bits, decl.type));
        return;
      }
      default:
        item satisfies never;
    }
  };
  walk(decl.initialiser);
}

function floatBits(format: "f32" | "f64" | "decimal", bits: bigint, type: string): bigint {
  if (format === "f32" && type !== "f64") return bits;
  const value = format === "f32" ? f32FromBits(Number(bits)) : f64FromBits(bits);
  const view = new DataView(new ArrayBuffer(8));
  if (type === "f64") {
    view.setFloat64(0, value);
    return view.getBigUint64(0);
  }
  view.setFloat32(0, value);
  return BigInt(view.getUint32(0));
}
