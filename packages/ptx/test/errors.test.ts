import { formatDiagnostic } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { checkModule, parseModule, printModule } from "../src/index.ts";

const module = (body: string, head = ".version 8.0\n.target sm_90a\n.address_size 64\n"): string =>
  `${head}.visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>; .reg .u64 %rd<4>; .reg .f32 %f<4>; .reg .pred %p<2>;\n${body}\nret;\n}\n`;

/** All messages of a text, from the parser or else the checks; body lines start at line 7. */
function messages(text: string): string[] {
  const result = parseModule(text, { file: "k.ptx" });
  return (result.ok ? checkModule(result.value) : result.error).map(formatDiagnostic);
}

describe("the parser refuses by name and line", () => {
  test.each([
    [
      "an unknown instruction",
      "fmaa.rn.f32 %f0, %f1, %f2, %f3;",
      "k.ptx:7:1: TW4002 (unsupported) at line 7: unknown instruction fmaa.rn.f32\n  hint: did you mean fma?",
    ],
    [
      "an unknown word of a family",
      "mbarrier.frob.shared.b64 [%r0];",
      "k.ptx:7:1: TW4002 (unsupported) at line 7: unknown instruction mbarrier.frob.shared.b64\n  hint: known: mbarrier.init, mbarrier.inval, mbarrier.expect_tx, mbarrier.complete_tx, mbarrier.arrive, mbarrier.arrive.expect_tx, mbarrier.arrive.noComplete, mbarrier.arrive_drop, …",
    ],
    [
      "an unknown modifier",
      "ld.global.v3.f32 %f0, [%rd0];",
      "k.ptx:7:1: TW4003 (invalid) at line 7: ld has no modifier .v3\n  hint: did you mean .v2?",
    ],
    [
      "a modifier that does not go with the others",
      "fma.rn.sat.f64 %f0, %f1, %f2, %f3;",
      "k.ptx:7:1: TW4003 (invalid) at line 7: modifier .f64 does not stand here in fma.rn.sat.f64\n  hint: due here: .f32",
    ],
    [
      "a missing type",
      "add %r0, %r1, %r2;",
      "k.ptx:7:1: TW4003 (invalid) at line 7: add is not complete: a modifier is missing at the end\n  hint: due here: .u16, .u32, .u64, .s16, .s32, .s64",
    ],
    [
      "an operand of the wrong type",
      "add.u32 %r0, %r1, %f2;",
      "k.ptx:7:1: TW4004 (invalid) at line 7: add.u32: operand 3 is %f2 (.f32), but a .u32 or .s32 or .b32 register or an integer constant is due\n  hint: takes add.u32 u32, u32, u32",
    ],
    [
      "an integer where a float is due",
      "@%p0 add.f32 %f0, %f1, 1;",
      "k.ptx:7:6: TW4004 (invalid) at line 7: add.f32: operand 3 is 1, but a .f32 or .b32 register or a float constant is due\n  hint: takes add.f32 f32, f32, f32",
    ],
    [
      "a vector of the wrong length",
      "ld.global.v4.f32 {%f0, %f1}, [%rd0];",
      "k.ptx:7:1: TW4004 (invalid) at line 7: ld.global.v4.f32: operand 1 is {%f0, %f1}, but a vector of 4 f32 or b32 or b64 registers of one type is due\n  hint: takes ld.global.v4.f32 {f32 x 4}, [address]",
    ],
    [
      "a 32-bit address of global memory",
      "ld.global.f32 %f0, [%r0];",
      "k.ptx:7:1: TW4004 (invalid) at line 7: ld.global.f32: operand 2 is [%r0], but an address in a .b64 or .u64 or .s64 register or a symbol is due\n  hint: takes ld.global.f32 f32, [address]",
    ],
    [
      "a missing operand",
      "bar.sync;",
      "k.ptx:7:1: TW4004 (invalid) at line 7: bar.sync: operand 1 is missing: a .u32 or .s32 or .b32 register or an integer constant is due\n  hint: takes bar.sync u32, {u32}",
    ],
    [
      "one operand too many",
      "neg.f32 %f0, %f1, %f2;",
      "k.ptx:7:1: TW4004 (invalid) at line 7: neg.f32: operand 3, %f2 (.f32), is one too many\n  hint: takes neg.f32 f32, f32",
    ],
    [
      "a constant out of range",
      "lop3.b32 %r0, %r1, %r2, %r3, 256;",
      "k.ptx:7:1: TW4004 (invalid) at line 7: lop3.b32: operand 5 is 256, but a constant 0 to 255 is due\n  hint: takes lop3.b32 b32, b32, b32, b32, constant",
    ],
    [
      "an undeclared register",
      "mov.u32 %r0, %r4;",
      "k.ptx:7:14: TW4005 (invalid) at line 7: register %r4 is not declared\n  hint: did you mean %r0?",
    ],
    [
      "an unknown special register",
      "mov.u32 %r0, %tib.x;",
      "k.ptx:7:14: TW4005 (invalid) at line 7: unknown special register %tib.x\n  hint: did you mean %tid.x?",
    ],
    [
      "a guard that is no predicate",
      "@%r0 ret;",
      "k.ptx:7:2: TW4004 (invalid) at line 7: guard %r0 is a .b32 register\n  hint: a guard is a .pred register",
    ],
    [
      "a missing semicolon",
      "mov.u32 %r0, 1\nmov.u32 %r1, 2;",
      'k.ptx:8:1: TW4001 (invalid) at line 8: ";" or "," is due after the operands of mov.u32, found mov.u32',
    ],
    [
      "an unknown directive",
      ".sharde .b8 x[4];",
      "k.ptx:7:1: TW4008 (unsupported) at line 7: no directive .sharde in a body\n  hint: did you mean .shared?",
    ],
    [
      "an unknown type",
      ".reg .b33 %x;",
      "k.ptx:7:6: TW4008 (unsupported) at line 7: no type .b33\n  hint: did you mean .b32?",
    ],
    [
      "a register declared twice",
      ".reg .b32 %r<9>;",
      "k.ptx:7:1: TW4007 (invalid) at line 7: register %r is declared twice in one scope",
    ],
    [
      "an alignment that is no power of two",
      ".shared .align 12 .b8 x[4];",
      "k.ptx:7:15: TW4012 (invalid) at line 7: alignment 12 is no power of two",
    ],
  ])("%s", (_, body, message) => {
    expect(messages(module(body))).toEqual([message]);
  });

  test("all faults at once, each at its place", () => {
    const found = messages(
      module(
        "frob.u32 %r0;\nmov.u32 %r0, {%r1, %q};\n{ mov.u32 %r9, 1; }\nadd.u32 %r0, %r1, 2;\nld.nope.u32 %r0, [%rd0];",
      ),
    );
    expect(found.map((m) => m.split("\n")[0])).toEqual([
      "k.ptx:7:1: TW4002 (unsupported) at line 7: unknown instruction frob.u32",
      "k.ptx:8:20: TW4005 (invalid) at line 8: register %q is not declared",
      "k.ptx:9:11: TW4005 (invalid) at line 9: register %r9 is not declared",
      "k.ptx:11:1: TW4003 (invalid) at line 11: ld has no modifier .nope",
    ]);
  });

  test.each([
    ["nothing", "", "a PTX module starts with .version, found the end of the text"],
    ["another language", "int main() {}", "a PTX module starts with .version, found int"],
    ["no target", ".version 8.0\n.entry k() {}", ".target is due after .version"],
    ["an unknown target", ".version 8.0\n.target compute_90\n", "no target compute_90"],
    ["a target that no architecture has", ".version 8.0\n.target sm_99a\n", "no target sm_99a"],
    [
      "32-bit addresses",
      ".version 8.0\n.target sm_80\n.address_size 32\n",
      "only 64-bit addresses are supported",
    ],
    [
      "a body without end",
      ".version 8.0\n.target sm_80\n.entry k() { ret;",
      "} is due at the end of the body",
    ],
    ["a comment without end", ".version 8.0\n.target sm_80\n/* ", "comment is not closed"],
    [
      "an unknown directive of an entry",
      ".version 8.0\n.target sm_80\n.entry k() .maxnitd 3 { ret; }",
      "no directive .maxnitd of a function",
    ],
  ])("%s", (_, text, message) => {
    const [first] = messages(text);
    expect(first).toContain(message);
  });

  test("any damage to a text gives diagnostics, never an exception", () => {
    const text = module(
      "L: ld.global.v4.f32 {%f0,%f1,%f2,%f3}, [%rd0+16];\n@!%p0 bra L;\n{ .reg .b32 t; mov.b32 t, %r0; }",
    );
    for (let i = 0; i < text.length; i++) {
      for (const damaged of [
        text.slice(0, i),
        text.slice(0, i) + text.slice(i + 1),
        `${text.slice(0, i)}}${text.slice(i)}`,
      ]) {
        const result = parseModule(damaged);
        if (!result.ok) expect(result.error.length).toBeGreaterThan(0);
      }
    }
  });
});

describe("the checks", () => {
  test.each([
    [
      "an instruction that the target lacks",
      ".version 7.0\n.target sm_70\n.address_size 64\n",
      "cp.async.commit_group;",
      "k.ptx:7:1: TW4011 (unsupported) at cp.async.commit_group;: cp.async.commit_group needs sm_80, the module has .target sm_70\n  hint: use .target sm_80 or later",
    ],
    [
      "an instruction of one architecture",
      ".version 8.6\n.target sm_90\n.address_size 64\n",
      "wgmma.fence.sync.aligned;",
      "k.ptx:7:1: TW4011 (unsupported) at wgmma.fence.sync.aligned;: wgmma.fence.sync.aligned is not in .target sm_90\n  hint: it is in sm_90a",
    ],
    [
      "an instruction that the version lacks",
      ".version 7.3\n.target sm_80\n.address_size 64\n",
      "ld.global.L2::128B.u32 %r0, [%rd0];",
      "k.ptx:7:1: TW4010 (unsupported) at ld.global.L2::128B.u32 %r0, [%rd0];: .L2::128B of ld needs PTX 7.4, the module has .version 7.3\n  hint: use .version 7.4 or later",
    ],
    [
      "a target that the version lacks",
      ".version 6.5\n.target sm_80\n.address_size 64\n",
      "ret;",
      "TW4010 (unsupported) at .version 6.5: .target sm_80 needs .version 7.0, the module has 6.5\n  hint: write .version 7.0",
    ],
    [
      "a modifier that the target lacks",
      ".version 7.4\n.target sm_70\n.address_size 64\n",
      "ld.global.L2::128B.u32 %r0, [%rd0];",
      "k.ptx:7:1: TW4011 (unsupported) at ld.global.L2::128B.u32 %r0, [%rd0];: .L2::128B of ld needs sm_75, the module has .target sm_70\n  hint: use .target sm_75 or later",
    ],
    [
      "a special register that the target lacks",
      ".version 8.0\n.target sm_80\n.address_size 64\n",
      "mov.u32 %r0, %cluster_ctarank;",
      "k.ptx:7:1: TW4011 (unsupported) at mov.u32 %r0, %cluster_ctarank;: %cluster_ctarank needs sm_90, the module has .target sm_80\n  hint: use .target sm_90 or later",
    ],
    [
      "a label that is not there",
      undefined,
      "LOOP: bra LOPP;",
      "k.ptx:7:7: TW4006 (invalid) at LOPP: LOPP is not declared\n  hint: did you mean LOOP?",
    ],
    [
      "a label of an inner scope",
      undefined,
      "{ IN: ret; }\nbra IN;",
      "k.ptx:8:1: TW4006 (invalid) at IN: IN is not declared",
    ],
    [
      "a label twice in a scope",
      undefined,
      "L: ret;\nL: ret;",
      "k.ptx:8:1: TW4007 (invalid) at L: L is declared twice in one scope",
    ],
    [
      "a misaligned constant address",
      undefined,
      ".shared .align 16 .b8 s[64];\nst.shared.v4.f32 [s+8], {%f0, %f1, %f2, %f3};",
      "k.ptx:8:1: TW4012 (invalid) at st.shared.v4.f32 [s+8], {%f0, %f1, %f2, %f3};: s+8 is not aligned to the 16 bytes that st.shared.v4.f32 accesses\n  hint: use an offset that is a multiple of 16",
    ],
  ])("%s", (_, head, body, message) => {
    expect(messages(module(body, head))).toEqual([message]);
  });

  test("directives of clusters need Hopper", () => {
    const text =
      ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() .reqnctapercluster 2, 1, 1 { ret; }\n";
    expect(messages(text)).toEqual([
      "k.ptx:4:1: TW4011 (unsupported) at k: .reqnctapercluster needs sm_90, the module has .target sm_80\n  hint: use .target sm_90 or later",
    ]);
  });

  test("one message for an instruction that a kernel repeats", () => {
    const text = module(
      "cp.async.wait_all;\ncp.async.wait_all;\ncp.async.wait_all;",
      ".version 7.0\n.target sm_75\n.address_size 64\n",
    );
    expect(messages(text)).toHaveLength(1);
  });
});

describe("syntax that is read as PTX means it", () => {
  const operandsOf = (body: string) => {
    const result = parseModule(module(body));
    if (!result.ok) throw new Error(result.error.map(formatDiagnostic).join("\n"));
    const [fn] = result.value.items;
    const statements = fn?.kind === "function" ? (fn.body ?? []) : [];
    return statements.flatMap((s) => (s.kind === "instruction" ? [s.operands] : []))[0];
  };

  test.each([
    ["0x10", 16n],
    ["020", 16n],
    ["0b101", 5n],
    ["-1", -1n],
    ["0xFFFFFFFFU", 4294967295n],
    ["(3+4)*2", 14n],
    ["1<<4|3", 19n],
    ["~0", -1n],
    ["WARP_SZ", 32n],
  ])("integer %s", (text, value) => {
    expect(operandsOf(`mov.u32 %r0, ${text};`)?.[1]).toEqual({ kind: "integer", value });
  });

  test.each([
    ["0f3FC00000", { format: "f32", bits: 0x3fc00000n }],
    ["0d3FF8000000000000", { format: "f64", bits: 0x3ff8000000000000n }],
    ["1.5", { format: "decimal", bits: 0x3ff8000000000000n }],
    ["-1.5e0", { format: "decimal", bits: 0xbff8000000000000n }],
    [".5", { format: "decimal", bits: 0x3fe0000000000000n }],
  ])("float %s", (text, value) => {
    expect(operandsOf(`mov.f32 %f0, ${text};`)?.[1]).toEqual({ kind: "float", ...value });
  });

  test("inner scopes reuse names of registers and labels, with their own types", () => {
    const text = module(
      "{ .reg .f32 %r1; mov.f32 %r1, 0f00000000; L: bra L; }\n{ L: bra L; }\nmov.b32 %r1, 0;",
    );
    const result = parseModule(text);
    if (!result.ok) throw new Error(result.error.map(formatDiagnostic).join("\n"));
    expect(checkModule(result.value)).toEqual([]);
    expect(printModule(result.value)).toContain("mov.f32 %r1, 0f00000000;");
  });

  test("modifiers in an order of nvcc's own get the ISA's", () => {
    const result = parseModule(module("atom.global.sys.add.u32 %r0, [%rd0], 1;"));
    if (!result.ok) throw new Error(result.error.map(formatDiagnostic).join("\n"));
    expect(printModule(result.value)).toContain("atom.sys.global.add.u32 %r0, [%rd0], 1;");
  });

  test("but types never change places: that would be another instruction", () => {
    expect(parseModule(module(".reg .b16 %h<2>; cvt.sat.s8.s16 %h0, %h1;")).ok).toBe(true);
    expect(parseModule(module(".reg .b16 %h<2>; cvt.sat.s16.s8 %h0, %h1;")).ok).toBe(false);
  });
});
