/**
 * Accumulators of wgmma that are copied while an operation is still to write them. Compilers leave such copies between the
 * issue and the wait (a loop's variables, operands that an asm statement ties), and ptxas makes one register of both: what
 * is under way arrives in the copy too, and a register whose value lives on in a copy is free for other values.
 */
import type { Register } from "../load/types.ts";
import { registerWord, type Warp } from "./state.ts";

/** `to` receives what operations up to number `before` write to the accumulator `from`. */
interface Copy {
  readonly from: Register;
  readonly to: Register;
  readonly before: number;
}

/** An accumulator that the warp has given another value; operations up to number `before` see these 32 words instead. */
interface Displaced {
  readonly register: Register;
  readonly before: number;
  readonly words: Int32Array;
}

/** Of one warp. */
export interface CarriedRegisters {
  /** wgmma issued so far, and the accumulators of those that have not been waited for, oldest first. */
  issued: number;
  operations: (readonly Register[])[];
  copies: Copy[];
  displaced: Displaced[];
}

export const noneCarried = (): CarriedRegisters => ({ issued: 0, operations: [], copies: [], displaced: [] });

/** The warp issues the next operation. */
export function countIssue(carried: CarriedRegisters, accumulators: readonly Register[]): void {
  carried.issued += 1;
  carried.operations.push(accumulators);
}

/** The warp copies `from`, which an operation is to write, to `to`. */
export function carry(carried: CarriedRegisters, from: Register, to: Register): void {
  const through = carried.copies.findLast((copy) => copy.to === from);
  const { from: root, before } = through ?? { from, before: carried.issued };
  carried.copies = carried.copies.filter((copy) => copy.to !== to);
  carried.copies.push({ from: root, to, before });
}

/**
 * The warp is about to write `register`, which an operation is to write as well. Whether that value lives on in a copy; if it
 * does, the operation has nothing more to do with the register.
 */
export function displace(
  carried: CarriedRegisters,
  warp: Warp,
  words: Int32Array,
  register: Register,
): boolean {
  const through = carried.copies.findLast((copy) => copy.to === register);
  if (through !== undefined) {
    // A copy is dropped: the accumulator, or another copy, has the value still.
    carried.copies = carried.copies.filter((copy) => copy !== through);
    return true;
  }
  const oldest = carried.issued - carried.operations.length;
  const writer = oldest + carried.operations.findLastIndex((accumulators) => accumulators.includes(register));
  if (!carried.copies.some(({ from, before }) => from === register && before > writer)) return false;
  const at = registerWord(warp, register, 0, 0);
  carried.displaced = carried.displaced.filter((one) => one.register !== register);
  carried.displaced.push({ register, before: carried.issued, words: words.slice(at, at + 32) });
  return true;
}

/** Run an operation of number `number` on the accumulators as it knows them, and hand its results to the copies. */
export function runCarried(
  carried: CarriedRegisters,
  warp: Warp,
  words: Int32Array,
  number: number,
  run: () => void,
): void {
  const swapped = carried.displaced.filter(({ before }) => number < before);
  const place = (register: Register): number => registerWord(warp, register, 0, 0);
  const kept = swapped.map(({ register, words: theirs }) => {
    const own = words.slice(place(register), place(register) + 32);
    words.set(theirs, place(register));
    return own;
  });
  run();
  // All results are read before any register is put back: a copy may be an accumulator of its own.
  const copies = carried.copies
    .filter(({ before }) => number < before)
    .map(({ from, to }) => ({ to, result: words.slice(place(from), place(from) + 32) }));
  swapped.forEach(({ register, words: theirs }, k) => {
    theirs.set(words.subarray(place(register), place(register) + 32));
    words.set(kept[k] ?? theirs, place(register));
  });
  for (const { to, result } of copies) words.set(result, place(to));
}

/** All but the newest `left` operations are complete: forget what they carried. Returns the copies that are still to come. */
export function settle(carried: CarriedRegisters, left: number): readonly Register[] {
  const number = carried.issued - left;
  carried.operations = left === 0 ? [] : carried.operations.slice(-left);
  carried.copies = carried.copies.filter(({ before }) => before > number);
  carried.displaced = carried.displaced.filter(({ before }) => before > number);
  return carried.copies.map(({ to }) => to);
}
