/** Kernels in a row over one arena: places, launches as data, and the numbers that come of them. */
import { unwrap } from "@tilewright/core";
import { expect, test } from "vitest";
import { openDevice } from "../src/open.ts";
import { launchSequence, planSequence } from "../src/sequence.ts";
import { gemmProblem, gemmSpec } from "./artifact.ts";
import { gemmPtx } from "./kernels.ts";

const storage = (elements: number) => ({ dtype: "f32" as const, elements });
const square = { offset: 0, shape: [4, 4], strides: [4, 1] };

test("values between steps share memory with nothing that lives beside them, and the last step has the product of all", async () => {
  const artifact = {
    ptx: gemmPtx,
    manifest: { request: gemmProblem({ m: 4, n: 4, k: 4, alpha: 1 }), kernels: [gemmSpec] },
  };
  const [x, w, one, two, three] = [storage(16), storage(16), storage(16), storage(16), storage(16)];
  const steps = [[x, one] as const, [one, two] as const, [two, three] as const].map(([a, d]) => ({
    artifact,
    operands: { a: { ...square, storage: a }, b: { ...square, storage: w }, d: { ...square, storage: d } },
  }));
  const plan = unwrap(planSequence(steps, { numSms: 1, given: [x, w], results: [three] }));
  const at = (each: typeof x) => plan.places.get(each) ?? -1;
  expect([plan.images.length, plan.launches.length]).toEqual([1, 3]);
  // The third value lies where the first one was.
  expect([at(three), new Set([x, w, one, two].map(at)).size]).toEqual([at(one), 4]);
  expect([plan.arena, plan.unshared]).toEqual([4 * 256, 5 * 256]);

  const device = unwrap(await openDevice({ kind: "emulator", arch: "sm_80" }));
  const arena = unwrap(device.alloc(plan.arena));
  const write = (each: typeof x, values: readonly number[]) =>
    unwrap(arena.write(new Uint8Array(Float32Array.from(values).buffer), at(each)));
  write(
    x,
    Array.from({ length: 16 }, (_, i) => i),
  );
  write(
    w,
    Array.from({ length: 16 }, (_, i) => (i % 5 === 0 ? 2 : 0)),
  );
  const told = unwrap(launchSequence(device, plan, arena));
  expect(told.flatMap(({ findings }) => findings)).toEqual([]);
  const made = new Float32Array(new Uint8Array(unwrap(arena.read(at(three), 64))).buffer);
  expect([...made]).toEqual(Array.from({ length: 16 }, (_, i) => 8 * i));
});

test("an operand without a view is named", () => {
  const artifact = {
    ptx: gemmPtx,
    manifest: { request: gemmProblem({ m: 4, n: 4, k: 4, alpha: 1 }), kernels: [gemmSpec] },
  };
  const operands = { a: { ...square, storage: storage(16) }, d: { ...square, storage: storage(16) } };
  const plan = planSequence([{ artifact, operands }], { numSms: 1, given: [], results: [] });
  expect(plan).toMatchObject({ error: [{ at: "steps[0].b", message: "gemm reads or writes b" }] });
});
