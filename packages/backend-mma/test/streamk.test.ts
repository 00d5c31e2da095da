/** Shares of long K loops: what the verifiers must prove without enumerating every share. */
import { boundProgram, plainProblem } from "@tilewright/conformance";
import { expect, test } from "vitest";
import { mma } from "../src/index.ts";

test.each(["streamk=132", "streamk=108", "streamk=264 frag=1"])(
  "4096 cubed, %s, is a legal program at every stage",
  (schedule) => {
    const program = boundProgram(mma, "sm_80", plainProblem(4096, 4096, 4096, "f16"), schedule);
    expect(program.stage).toBe("bound");
  },
);
