/** Whether a driver understands a PTX version; the table of both is in `@tilewright/ir`. */
import { firstCudaFor, type PtxVersion } from "@tilewright/core";

const compare = (a: readonly [number, number], b: readonly [number, number]): number =>
  a[0] - b[0] || a[1] - b[1];

/** [13, 0] for 13000. */
export const cudaVersion = (code: number): readonly [number, number] => [
  Math.floor(code / 1000),
  Math.floor((code % 1000) / 10),
];

/**
 * Why a driver of version `code` (as `cuDriverGetVersion` gives it) cannot take text of PTX version `ptx`, and what driver can.
 * Null when it can, and for versions newer than the table, where the driver itself is asked (error 222).
 */
export function driverTooOld(
  ptx: PtxVersion,
  code: number,
): { readonly message: string; readonly needs: string } | null {
  const row = firstCudaFor(ptx);
  if (row === null) return null;
  const have = cudaVersion(code);
  if (compare(have, row.cuda) >= 0) return null;
  return {
    message: `PTX ${ptx.join(".")} needs a driver of CUDA ${row.cuda.join(".")} and this one is of CUDA ${have.join(".")}`,
    needs: `NVIDIA driver ${row.branch} or newer`,
  };
}
