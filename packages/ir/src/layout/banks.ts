/**
 * Bank oracle: what a warp's shared-memory access costs, from its addresses alone.
 *
 * Shared memory has 32 banks of 4 bytes; a wavefront serves one 4-byte word of each bank, to any number of lanes. Accesses of up
 * to 4 bytes go out for the whole warp at once, 8 bytes by half-warps, 16 bytes by quarter-warps (CUDA C++ Programming Guide,
 * "Shared Memory" of compute capability 5.x and later). The hardware may serve two quarter-warps that want the same words in one
 * wavefront; the model does not count on it.
 */

/** Bytes that one lane moves. */
export type AccessWidth = 1 | 2 | 4 | 8 | 16;

/** One shared-memory instruction of one warp. */
export interface WarpAccess {
  readonly width: AccessWidth;
  /** Byte address of each of up to 32 lanes; null for a lane that is switched off. */
  readonly addresses: readonly (number | null)[];
}

export interface BankReport {
  /** Passes through the banks that the access takes. */
  readonly wavefronts: number;
  /** Wavefronts without any conflict: one for each group of lanes that has an active lane. */
  readonly ideal: number;
  /** `wavefronts - ideal`: what bank conflicts cost. */
  readonly excess: number;
  /** Most distinct words that one group wants from one bank: an n-way conflict. 0 when no lane is active. */
  readonly ways: number;
}

const banks = 32;
const wordBytes = 4;

/** Wavefronts and conflicts of one access. Throws (a bug) on an address that is not aligned to the width. */
export function bankConflicts(access: WarpAccess): BankReport {
  const { width, addresses } = access;
  const words = Math.max(1, width / wordBytes);
  const group = 32 / words;
  let wavefronts = 0;
  let ideal = 0;
  let ways = 0;
  for (let first = 0; first < addresses.length; first += group) {
    const wanted: (number[] | undefined)[] = [];
    let most = 0;
    const end = Math.min(first + group, addresses.length);
    for (let lane = first; lane < end; lane++) {
      const address = addresses[lane] ?? null;
      if (address === null) continue;
      if (address % width !== 0) throw new RangeError(`address ${address} is not aligned to ${width} bytes`);
      const word = Math.floor(address / wordBytes);
      for (let i = 0; i < words; i++) {
        const bank = (word + i) % banks;
        const others = wanted[bank];
        if (others === undefined) wanted[bank] = [word + i];
        else if (!others.includes(word + i)) others.push(word + i);
        most = Math.max(most, wanted[bank]?.length ?? 0);
      }
    }
    wavefronts += most;
    ideal += most > 0 ? 1 : 0;
    ways = Math.max(ways, most);
  }
  return { wavefronts, ideal, excess: wavefronts - ideal, ways };
}

/** A lane's part of an access that falls into one bank. */
export interface BankCell {
  readonly lane: number;
  readonly bank: number;
  /** 4-byte word of shared memory. */
  readonly word: number;
  /** Wavefront of the access that serves it, from 0; those of one group of lanes follow those of the group before. */
  readonly wavefront: number;
}

/**
 * Where each lane's bytes lie: the map of lanes by banks, with the wavefront of each cell. Words of one bank are served in the order of the
 * lanes that want them first; hardware may choose another, of the same number. Throws (a bug) on an address that is not aligned.
 */
export function bankCells({ width, addresses }: WarpAccess): readonly BankCell[] {
  const words = Math.max(1, width / wordBytes);
  const group = 32 / words;
  const cells: BankCell[] = [];
  let served = 0;
  for (let first = 0; first < addresses.length; first += group) {
    const wanted = Array.from({ length: banks }, () => new Map<number, number>());
    addresses.slice(first, first + group).forEach((address, i) => {
      if (address === null) return;
      if (address % width !== 0) throw new RangeError(`address ${address} is not aligned to ${width} bytes`);
      for (let w = 0; w < words; w++) {
        const word = Math.floor(address / wordBytes) + w;
        const bank = word % banks;
        const turns = wanted[bank];
        const turn = turns?.get(word) ?? turns?.size ?? 0;
        turns?.set(word, turn);
        cells.push({ lane: first + i, bank, word, wavefront: served + turn });
      }
    });
    served += wanted.reduce((most, turns) => Math.max(most, turns.size), 0);
  }
  return cells;
}
