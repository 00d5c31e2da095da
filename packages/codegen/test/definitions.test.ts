/** First writes under predicates: what becomes of each kind of instruction, and where zeros stand. */
import { parseModule, printModule } from "@tilewright/ptx";
import { expect, test } from "vitest";
import { withWholeDefinitions } from "../src/definitions.ts";

/** The instructions and labels of a kernel of these lines. */
function whole(lines: string, stay = false): readonly string[] {
  const parsed = parseModule(`.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p_d)
{
  .reg .pred %p<4>;
  .reg .f32 %f<8>;
  .reg .b32 %r<8>;
  .reg .u64 %d<2>;
${lines}
  ret;
}
`);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.error));
  const text = printModule(withWholeDefinitions(parsed.value, stay));
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => /^(@|[A-Za-z$].*[;:]$)/.test(line) && line !== "ret;");
}

test("arithmetic that writes a register first loses its predicate, and only that", () => {
  expect(
    whole(`
  mov.b32 %f0, 0;
  @%p0 mul.rn.f32 %f1, %f0, %f0;
  @%p0 add.rn.f32 %f1, %f1, %f0;
  @%p0 st.global.f32 [%d0], %f1;
  @%p0 red.global.add.f32 [%d0], %f1;`),
  ).toEqual([
    "mov.b32 %f0, 0;",
    "mul.rn.f32 %f1, %f0, %f0;",
    "@%p0 add.rn.f32 %f1, %f1, %f0;",
    "@%p0 st.global.f32 [%d0], %f1;",
    "@%p0 red.global.add.f32 [%d0], %f1;",
  ]);
});

test("a load keeps its predicate, and what it does not load is 0", () => {
  expect(whole("  @%p0 ld.global.f32 %f1, [%d0];")).toEqual([
    "mov.b32 %f1, 0;",
    "@%p0 ld.global.f32 %f1, [%d0];",
  ]);
});

test("zeros stand before a loop over chunks, inside of one over tiles", () => {
  const lines = `
TILES:
  @%p1 ld.global.f32 %f1, [%d0];
CHUNKS:
  @%p0 ld.global.f32 %f2, [%d0];
  @%p0 bra CHUNKS;
  @%p1 bra TILES;`;
  const chunks = ["CHUNKS:", "@%p0 ld.global.f32 %f2, [%d0];", "@%p0 bra CHUNKS;"];
  expect(whole(lines, true)).toEqual([
    "TILES:",
    "mov.b32 %f1, 0;",
    "@%p1 ld.global.f32 %f1, [%d0];",
    "mov.b32 %f2, 0;",
    ...chunks,
    "@%p1 bra TILES;",
  ]);
  expect(whole(lines.replace(/ {2}@%p1 bra TILES;|TILES:/g, ""))).toEqual([
    "mov.b32 %f1, 0;",
    "@%p1 ld.global.f32 %f1, [%d0];",
    "mov.b32 %f2, 0;",
    ...chunks,
  ]);
});

test("arithmetic on what a branch may have passed by keeps its predicate", () => {
  const lines = `
  mov.b32 %f1, 0;
  @%p1 bra PAST;
  mul.rn.f32 %f2, %f1, %f1;
PAST:
  @%p0 add.rn.f32 %f3, %f1, %f1;
  @%p0 add.rn.f32 %f4, %f2, %f2;`;
  expect(whole(lines).slice(-2)).toEqual(["add.rn.f32 %f3, %f1, %f1;", "@%p0 add.rn.f32 %f4, %f2, %f2;"]);
});
