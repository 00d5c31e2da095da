/** Give everything that a block has in shared and tensor memory its place, and begin the stage `machine`. */
import { placeShared, sharedRegions } from "../tile/sharedMemory.ts";
import { slotColumns, tensorColumns } from "../tile/tensor.ts";
import type { Buffer, Place, TileProgram } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** Ends every backend's list: what it returns is what lowering translates. */
export const allocate: Pass = {
  name: "allocate",
  summary: "Tiles, mbarriers and what else lies in shared and tensor memory get their places",
  from: "machine",
  to: "machine",
  run(program) {
    const regions = sharedRegions(program);
    const { places, bytes } = placeShared(regions);
    const { first, columns } = tensorColumns(program);
    const placeOf = (buffer: Buffer): Place | undefined => {
      const column = first.get(buffer.name);
      if (column === undefined) return places.get(buffer.name);
      return { offset: column, every: buffer.slots > 1 ? slotColumns(program, buffer) : 0 };
    };
    const at = (name: string): Place => places.get(name) ?? { offset: 0, every: 0 };
    const placed: TileProgram = {
      ...program,
      stage: "machine",
      buffers: program.buffers.map((buffer) => {
        const place = placeOf(buffer);
        return place === undefined ? buffer : { ...buffer, place };
      }),
      machine: {
        barriers: regions
          .filter(({ kind }) => kind === "mbar")
          .map(({ name, slots, count = 1 }) => ({ name, offset: at(name).offset, slots, count })),
        scratch: regions
          .filter(({ kind }) => kind === "scratch")
          .map(({ name, bytes: size }) => ({ name, offset: at(name).offset, bytes: size })),
        memory: { shared: bytes, tensor: columns },
      },
    };
    return placed;
  },
};
