/**
 * Bank conflicts of shared accesses: 32 banks of 4 bytes. A warp's access takes as many wavefronts as the bank that is hit
 * by most different words; 8-byte accesses go in two halves of a warp, 16-byte ones in four quarters (hardware.md of any
 * shared-memory guide, and measured on Volta to Hopper).
 */

const wordsOf = new Int32Array(32 * 33);
const counts = new Uint8Array(32);

/** Wavefronts of the lanes [from, from+lanes) that access `bytes` each; -1 marks a lane that takes no part. */
function wavefronts(addresses: Int32Array, from: number, lanes: number, bytes: number): number {
  counts.fill(0);
  let worst = 0;
  for (let l = 0; l < lanes; l++) {
    const address = addresses[from + l] as number;
    if (address === -1) continue;
    for (let k = 0; k < bytes >> 2; k++) {
      const word = ((address & 0xffffff) >> 2) + k;
      const bank = word & 31;
      const count = counts[bank] as number;
      let known = false;
      for (let j = 0; j < count; j++) if (wordsOf[bank * 33 + j] === word) known = true;
      if (known) continue;
      wordsOf[bank * 33 + count] = word;
      counts[bank] = count + 1;
      worst = Math.max(worst, count + 1);
    }
  }
  return worst;
}

/** Wavefronts a warp's access takes, and the fewest that the same lanes could take. */
export function countWavefronts(
  addresses: Int32Array,
  from: number,
  bytes: number,
): { taken: number; least: number } {
  const lanes = bytes >= 16 ? 8 : bytes === 8 ? 16 : 32;
  let taken = 0;
  let least = 0;
  for (let part = 0; part < 32; part += lanes) {
    const worst = wavefronts(addresses, from + part, lanes, bytes);
    taken += worst;
    if (worst > 0) least += bytes === 32 ? 2 : 1;
  }
  return { taken, least };
}
