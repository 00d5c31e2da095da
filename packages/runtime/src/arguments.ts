/** Launch arguments against the parameters that an entry declares: count, kind, range; then bytes. */
import { type Checked, type Diagnostic, ok } from "@tilewright/core";
import type { DeviceBuffer, LaunchArgument } from "./device.ts";
import { diagnose } from "./diagnostics.ts";
import type { ParamInfo } from "./ptx-header.ts";

interface ScalarRow {
  /** What fits, for messages. */
  readonly says: string;
  readonly holds: (value: number | bigint) => boolean;
  readonly write: (view: DataView, value: number | bigint) => void;
}

const integer = (bits: number, signed: boolean): ScalarRow => {
  // An unsigned parameter also takes the negative numbers of its width, as C would: the bits are the same.
  const low = -(2n ** BigInt(bits - 1));
  const high = signed ? 2n ** BigInt(bits - 1) : 2n ** BigInt(bits);
  return {
    says: `an integer of ${bits} bits`,
    holds: (value) =>
      (typeof value === "bigint" || Number.isSafeInteger(value)) &&
      BigInt(value) >= low &&
      BigInt(value) < high,
    write: (view, value) => {
      const word = BigInt.asUintN(bits, BigInt(value));
      for (let byte = 0; byte < bits / 8; byte++)
        view.setUint8(byte, Number((word >> BigInt(8 * byte)) & 0xffn));
    },
  };
};

const float = (bits: 32 | 64): ScalarRow => ({
  says: "a number",
  holds: (value) => typeof value === "number",
  write: (view, value) => {
    if (bits === 32) view.setFloat32(0, Number(value), true);
    else view.setFloat64(0, Number(value), true);
  },
});

/** PTX parameter types that a number or a bigint can be given for; other types take bytes. */
const scalars: Readonly<Record<string, ScalarRow>> = {
  u8: integer(8, false),
  s8: integer(8, true),
  u16: integer(16, false),
  s16: integer(16, true),
  u32: integer(32, false),
  s32: integer(32, true),
  b32: integer(32, false),
  u64: integer(64, false),
  s64: integer(64, true),
  b64: integer(64, false),
  f32: float(32),
  f64: float(64),
};

/** Whether an argument is a buffer, of whatever device. */
export const isBuffer = (argument: LaunchArgument): argument is DeviceBuffer =>
  typeof argument === "object" && !(argument instanceof Uint8Array);

const describe = (argument: LaunchArgument): string => {
  if (argument instanceof Uint8Array) return `${argument.byteLength} bytes`;
  if (isBuffer(argument)) return "a buffer";
  return typeof argument === "bigint" ? `${argument}n` : `${argument}`;
};

/**
 * The bytes of each parameter, little-endian. `params` null: the image declares nothing (a cubin), then only buffers, bigints (8 bytes) and bytes are taken.
 * Every argument that does not fit is reported.
 */
export function encodeArguments(
  entry: string,
  params: readonly ParamInfo[] | null,
  args: readonly LaunchArgument[],
): Checked<readonly Uint8Array[]> {
  if (params !== null && params.length !== args.length) {
    const names = params.map((param) => `${param.name}: ${param.type}`).join(", ");
    return {
      ok: false,
      error: [
        diagnose(
          "args",
          `${entry}.args`,
          `${args.length} arguments were given and the entry takes ${params.length}`,
          params.length === 0 ? "it takes none" : `it takes (${names})`,
        ),
      ],
    };
  }
  const problems: Diagnostic[] = [];
  const encoded = args.map((argument, index) => {
    const param = params?.[index] ?? null;
    const bytes = encode(param, argument);
    if (typeof bytes !== "string") return bytes;
    problems.push(
      diagnose(
        "args",
        `${entry}.args[${index}]`,
        `${describe(argument)} does not fit ${param === null ? "an undeclared parameter" : `parameter ${param.name} of type ${param.type}`}`,
        `it takes ${bytes}`,
      ),
    );
    return new Uint8Array();
  });
  return problems.length > 0 ? { ok: false, error: problems } : ok(encoded);
}

/** The bytes of one argument, or what the parameter takes. */
function encode(param: ParamInfo | null, argument: LaunchArgument): Uint8Array | string {
  if (argument instanceof Uint8Array) {
    if (param !== null && argument.byteLength !== param.size) return `${param.size} bytes`;
    // A copy: the caller may reuse its array while the launch is in flight.
    return argument.slice();
  }
  const value = isBuffer(argument) ? argument.address : argument;
  if (param === null) {
    if (typeof value === "number")
      return "a buffer, a bigint of 64 bits, or bytes: the image does not say how wide a number is";
    return write(8, scalars.u64 as ScalarRow, value);
  }
  const row = scalars[param.type];
  if (row === undefined || param.size !== widthOf(param.type)) return `${param.size} bytes`;
  if (isBuffer(argument) && param.size !== 8) return row.says;
  return row.holds(value) ? write(param.size, row, value) : row.says;
}

const widthOf = (type: string): number => Number(type.slice(1)) / 8;

function write(size: number, row: ScalarRow, value: number | bigint): Uint8Array {
  const bytes = new Uint8Array(size);
  row.write(new DataView(bytes.buffer), value);
  return bytes;
}
