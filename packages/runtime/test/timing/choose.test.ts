/** Choosing among a library's algorithms on a simulated GPU, one of which waits for the device in its launch. */
import { ok } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import type { PeerAlgorithm } from "../../src/cublaslt/peer.ts";
import { fastest } from "../../src/timing/choose.ts";
import type { Contender } from "../../src/timing/stream.ts";
import { SimulatedGpu, type SimulatedOptions } from "./simulated.ts";

/** Algorithms of these cycles; those of `waiting` synchronise before they queue. */
function chosen(cycles: readonly number[], waiting: readonly number[], gpu: SimulatedOptions = {}) {
  const device = new SimulatedGpu(gpu);
  const algorithms = cycles.map((count, index): PeerAlgorithm => {
    const own = device.contender(`a${index}`, count);
    const launch = (set: number) => {
      if (waiting.includes(index)) device.wait();
      return own.launch(set);
    };
    const contender: Contender = { name: own.name, launch };
    return { contender, label: `algo ${index}`, workspaceBytes: 0 };
  });
  return fastest(device, { algorithms }, 3, 1);
}

describe("algorithms that wait for the device in their launch", () => {
  test("are left out and told with the time that they take alone; the others are tried out", () => {
    const found = chosen([198_000, 99_000, 158_400], [1]);
    if (!found.ok) throw new Error(JSON.stringify(found.error));
    expect(found.value.usable).toEqual([0, 2]);
    expect(found.value.best).toBe(2);
    expect(
      found.value.failed.map(({ code, message }) => [code, /takes (\S+) us/.exec(message)?.[1]]),
    ).toEqual([["TW6049", expect.stringMatching(/^5\d\.\d$/)]]);
  });

  test("a slow host is no such algorithm", () => {
    const found = chosen([198_000, 99_000], [], { callUs: 1500 });
    expect(found.ok && found.value.usable).toEqual([0, 1]);
    expect(found.ok && found.value.failed).toEqual([]);
  });

  test("with all of them waiting none is left", () => {
    const found = chosen([1000, 2000], [0, 1]);
    expect(found).toMatchObject(ok({ usable: [], best: 0 }));
  });
});
