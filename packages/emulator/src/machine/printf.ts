/**
 * The text of a device printf: its format with the arguments that stand in a buffer one behind the other, each at a
 * multiple of its size (CUDA C++ Programming Guide, "Formatted Output": the conversions of C, without %n).
 */

/** Where the arguments and the strings that they point to are read. */
export interface PrintfMemory {
  /** The next argument of `bytes` bytes, at a multiple of them. */
  next(bytes: 4 | 8): bigint;
  /** The characters up to the zero at a generic address. */
  string(address: bigint): string;
}

const conversion = /%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+)?)?(hh|h|ll|l|j|z|t|L)?([diouxXcsfFeEgGaAp%])/g;

export function formatPrintf(format: string, memory: PrintfMemory): string {
  return format.replace(conversion, (whole, flags: string, width = "", precision, length = "", kind) => {
    if (kind === "%") return "%";
    const star = (given: string): number =>
      given === "*" ? Number(BigInt.asIntN(32, memory.next(4))) : Number(given);
    const columns = width === "" ? 0 : star(width);
    const dotted = /\./.test(whole);
    const digits = dotted ? star(precision ?? "0") : null;
    const field: Field = { flags, digits, wide: /^(ll|l|j|z|t)$/.test(length), kind };
    const text = convert(field, memory);
    const left = flags.includes("-") || columns < 0;
    const size = Math.abs(columns);
    if (left) return text.padEnd(size);
    const zeros =
      flags.includes("0") && /[fFeEgGaAdiouxX]/.test(kind) && (digits === null || /[fFeEgG]/.test(kind));
    if (!zeros || text.length >= size) return text.padStart(size);
    const sign = /^(?:[-+ ]?0[xX]|[-+ ])/.exec(text)?.[0] ?? "";
    return sign + text.slice(sign.length).padStart(size - sign.length, "0");
  });
}

interface Field {
  readonly flags: string;
  /** The precision; null where none is given. */
  readonly digits: number | null;
  /** The argument has 64 bits. */
  readonly wide: boolean;
  readonly kind: string;
}

function convert(field: Field, memory: PrintfMemory): string {
  const { flags, digits, wide, kind } = field;
  switch (kind) {
    case "c":
      return String.fromCharCode(Number(memory.next(4) & 0xffn));
    case "s": {
      const text = memory.string(memory.next(8));
      return digits === null ? text : text.slice(0, digits);
    }
    case "p":
      return `0x${memory.next(8).toString(16)}`;
    case "d":
    case "i": {
      const value = BigInt.asIntN(wide ? 64 : 32, memory.next(wide ? 8 : 4));
      const magnitude = (value < 0n ? -value : value).toString().padStart(digits ?? 1, "0");
      return signOf(value < 0n, flags) + magnitude;
    }
    case "o":
    case "u":
    case "x":
    case "X": {
      const value = BigInt.asUintN(wide ? 64 : 32, memory.next(wide ? 8 : 4));
      const base = kind === "o" ? 8 : kind === "u" ? 10 : 16;
      const prefix =
        flags.includes("#") && value !== 0n ? (kind === "o" ? "0" : base === 16 ? "0x" : "") : "";
      const text = prefix + value.toString(base).padStart(digits ?? 1, "0");
      return kind === "X" ? text.toUpperCase() : text;
    }
    default: {
      const value = new Float64Array(BigUint64Array.of(memory.next(8)).buffer)[0] ?? 0;
      const text = magnitude(Math.abs(value), kind.toLowerCase(), digits, flags.includes("#"));
      const signed = signOf(value < 0 || Object.is(value, -0), flags) + text;
      return kind === kind.toUpperCase() ? signed.toUpperCase() : signed;
    }
  }
}

const signOf = (negative: boolean, flags: string): string =>
  negative ? "-" : flags.includes("+") ? "+" : flags.includes(" ") ? " " : "";

/** Digits of `toFixed` and its kin at most. */
const mostDigits = 100;

/** A floating-point number that is not negative, as %f, %e, %g or %a shows it. */
function magnitude(value: number, kind: string, digits: number | null, alternate: boolean): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return "inf";
  const precision = Math.min(digits ?? 6, mostDigits);
  if (kind === "a") return hexadecimal(value);
  if (kind === "f") return fixed(value, precision);
  if (kind === "e") return exponential(value, precision);
  const significant = Math.max(1, precision);
  const exponent = value === 0 ? 0 : Number(value.toExponential(significant - 1).split("e")[1]);
  const text =
    exponent < -4 || exponent >= significant
      ? exponential(value, significant - 1)
      : fixed(value, significant - 1 - exponent);
  return alternate ? text : text.replace(/\.0+(?=e|$)|(\.\d*?)0+(?=e|$)/, "$1");
}

/** `toFixed` is exact below 10^21 only; above, the value is an integer. */
const fixed = (value: number, digits: number): string =>
  value < 1e21
    ? value.toFixed(digits)
    : BigInt(value).toString() + (digits > 0 ? `.${"0".repeat(digits)}` : "");

/** C shows two digits of the exponent at least. */
const exponential = (value: number, digits: number): string =>
  value.toExponential(digits).replace(/e([-+])(\d)$/, "e$10$2");

function hexadecimal(value: number): string {
  const bits = BigUint64Array.from(new BigUint64Array(Float64Array.of(value).buffer))[0] ?? 0n;
  const fraction = (bits & ((1n << 52n) - 1n)).toString(16).padStart(13, "0").replace(/0+$/, "");
  const biased = Number(bits >> 52n);
  const exponent = value === 0 ? 0 : biased === 0 ? -1022 : biased - 1023;
  return `0x${biased === 0 ? 0 : 1}${fraction === "" ? "" : `.${fraction}`}p${exponent < 0 ? "" : "+"}${exponent}`;
}
