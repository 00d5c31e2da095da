/** Descriptors as tables of bit fields: what no field covers is reserved and has to be zero. */

export interface BitField {
  readonly low: number;
  readonly bits: number;
}
export type BitFields = Readonly<Record<string, BitField>>;

/** `field(7, 3)` is bits 7, 8 and 9. */
export const field = (low: number, bits: number): BitField => ({ low, bits });

export const readField = (word: bigint, { low, bits }: BitField): number =>
  Number((word >> BigInt(low)) & ((1n << BigInt(bits)) - 1n));

/** The word with all fields set; a field that is left out is 0. Values too wide for their field are an error of the caller. */
export function writeFields<T extends BitFields>(
  fields: T,
  values: Readonly<Partial<Record<keyof T, number>>>,
): bigint {
  let word = 0n;
  for (const [name, { low, bits }] of Object.entries(fields)) {
    const value = values[name] ?? 0;
    if (!Number.isInteger(value) || value < 0 || value >= 2 ** bits)
      throw new RangeError(`${name} = ${value} does not fit ${bits} bits`);
    word |= BigInt(value) << BigInt(low);
  }
  return word;
}

/** A sentence for each run of set bits that no field covers: `bits 24 to 26 are reserved and have to be 0`. */
export function reservedBits(word: bigint, fields: BitFields, width: number): readonly string[] {
  let rest = word;
  for (const { low, bits } of Object.values(fields)) rest &= ~(((1n << BigInt(bits)) - 1n) << BigInt(low));
  const runs: string[] = [];
  for (let bit = 0; bit < width; bit++) {
    if (((rest >> BigInt(bit)) & 1n) === 0n) continue;
    let end = bit;
    while (end + 1 < width && ((rest >> BigInt(end + 1)) & 1n) === 1n) end += 1;
    runs.push(
      end === bit
        ? `bit ${bit} is reserved and has to be 0`
        : `bits ${bit} to ${end} are reserved and have to be 0`,
    );
    bit = end;
  }
  return runs;
}
