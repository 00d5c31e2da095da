import { formatDiagnostic } from "@tilewright/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  checkModule,
  type Instruction,
  type InstructionRow,
  makeInstruction,
  parseModule,
  printInstruction,
  resolveMnemonic,
  rows,
  selectForm,
} from "../src/index.ts";
import { slotsOf } from "../src/resolve.ts";
import { declarations, generateInstruction, random } from "./support/generate.ts";
import { assemble, hasPtxas, inPairs, slow } from "./support/ptxas.ts";

const title = (row: InstructionRow): string => `${row.opcode} ${row.mods}`.slice(0, 120);

/** Everything that generated operands name, around a body. */
const wrap = (body: string, target = "sm_100a", version = "9.0"): string => `.version ${version}
.target ${target}
.address_size 64
.shared .align 1024 .b8 smem[4096];
.func callee() { ret; }
.visible .entry k()
{
${Number(version) < 8.3 ? declarations.replace(/\.reg \.b128.*/, "") : declarations}
PROTO: .callprototype () _ ();
TARGETS: .branchtargets LABEL;
${body}
LABEL:
ret;
}
`;

function instructionsOf(text: string): readonly Instruction[] {
  const result = parseModule(text);
  if (!result.ok) throw new Error(result.error.map(formatDiagnostic).join("\n"));
  const entry = result.value.items.find((i) => i.kind === "function" && i.entry);
  const body = entry?.kind === "function" ? (entry.body ?? []) : [];
  return body.filter((s) => s.kind === "instruction").slice(0, -1);
}

describe("every row", () => {
  test("has its own spelling: opcode, slots and arguments parse", () => {
    for (const row of rows) {
      for (const slot of slotsOf(row)) expect(slot.alternatives.length).toBeGreaterThan(0);
      expect(row.since[2]).toBeGreaterThanOrEqual(10);
      for (const target of row.only ?? []) expect(target).toMatch(/^sm_\d+[af]$/);
    }
  });

  test("is reachable: some mnemonic selects it", () => {
    for (const [index, row] of rows.entries()) {
      const rnd = random(index);
      let found = false;
      for (let i = 0; i < 60 && !found; i++) found = generateInstruction(row, rnd) !== null;
      expect(found, title(row)).toBe(true);
    }
  });

  test("names requirements only of modifiers that some row of its opcode has", () => {
    // A typing error in `needs` would silently drop the requirement.
    const words = new Set(
      rows.flatMap((row) => slotsOf(row).flatMap((s) => s.alternatives.flatMap((a) => a.split(".")))),
    );
    for (const row of rows)
      for (const name of Object.keys(row.needs ?? {}).flatMap((key) => key.split(".")))
        expect(words, `${title(row)}: ${name}`).toContain(name);
  });
});

test("a legal instruction prints and parses back to itself", () => {
  fc.assert(
    fc.property(fc.constantFrom(...rows), fc.nat(), (row, seed) => {
      const generated = generateInstruction(row, random(seed));
      if (!generated) return;
      const instruction = makeInstruction(generated.mnemonic, generated.operands);
      const [again] = instructionsOf(wrap(printInstruction(instruction)));
      expect(again).toEqual({ ...instruction, location: again?.location });
    }),
    { numRuns: 3000 },
  );
});

test("an instruction with one operand dropped or one too many is refused", () => {
  fc.assert(
    fc.property(fc.constantFrom(...rows), fc.nat(), (row, seed) => {
      const generated = generateInstruction(row, random(seed));
      if (!generated) return;
      const resolution = resolveMnemonic(generated.mnemonic);
      if (!resolution.ok) throw new Error(resolution.message);
      const extra = [
        ...generated.operands,
        ...generated.operands.slice(0, 1),
        ...generated.operands,
        { kind: "sink" } as const,
      ];
      expect(selectForm(resolution.forms, extra)).toBeNull();
      const least = Math.min(...resolution.forms.map((f) => f.arguments.filter((a) => !a.optional).length));
      if (least > 0) expect(selectForm(resolution.forms, generated.operands.slice(0, least - 1))).toBeNull();
    }),
    { numRuns: 1000 },
  );
});

test("the order of modifiers does not matter to the parser, and the module has the ISA's", () => {
  fc.assert(
    fc.property(fc.constantFrom(...rows), fc.nat(), (row, seed) => {
      const generated = generateInstruction(row, random(seed));
      if (!generated) return;
      const resolution = resolveMnemonic(generated.mnemonic);
      if (!resolution.ok) throw new Error(resolution.message);
      // Types keep their order: cvt.f32.f16 is not cvt.f16.f32.
      const reversed = [...resolution.modifiers].reverse();
      const again = resolveMnemonic([resolution.opcode, ...reversed].join("."));
      if (again.ok && again.opcode === resolution.opcode)
        expect([...again.modifiers].sort()).toEqual([...reversed].sort());
    }),
    { numRuns: 500 },
  );
});

/** Values that ptxas refuses and the table does not describe: counts of zero, an empty range. */
const VALUE_RULES = /non-zero|must be less than or equal|larger than the largest temporal/;
/** Targets for which ptxas 13.0 has code, by the least sm of a row. */
const OUTPUT = [75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121];
/** PTX version that introduced the target. */
const TARGET_VERSION: Readonly<Record<number, readonly [number, number]>> = {
  75: [6, 3],
  80: [7, 0],
  86: [7, 1],
  87: [7, 4],
  89: [7, 8],
  90: [7, 8],
  100: [8, 6],
  103: [8, 8],
  110: [9, 0],
  120: [8, 7],
  121: [8, 8],
};

test.skipIf(!hasPtxas)(
  "ptxas takes what the rows allow, at the version and target that they name",
  async () => {
    const jobs = new Map<string, string[]>();
    for (const [index, row] of rows.entries()) {
      // wgmma out of its protocol makes ptxas serialise and run out of registers; the corpus has it in context.
      if (row.opcode.startsWith("wgmma.")) continue;
      const rnd = random(index + 1);
      for (let i = 0; i < (slow ? 40 : 5); i++) {
        // The selectors of block-scaled mma are constants with rules of their own.
        const generated = generateInstruction(row, rnd, row.opcode !== "mma");
        if (!generated) continue;
        const resolution = resolveMnemonic(generated.mnemonic);
        const form = resolution.ok ? selectForm(resolution.forms, generated.operands) : null;
        if (!form) throw new Error(generated.mnemonic);
        const requirements = form.requirements.map((r) => r.requirement);
        const exact = requirements.flatMap((r) => (r.only ? [r.only] : []));
        const least = Math.max(75, ...requirements.map((r) => r.since[2]));
        const target =
          exact.length > 0
            ? exact[0]?.find(
                (t) => t.endsWith("a") && t !== "sm_101a" && exact.every((only) => only.includes(t)),
              )
            : `sm_${OUTPUT.find((sm) => sm >= least)}`;
        const base = TARGET_VERSION[Number(/\d+/.exec(target ?? "")?.[0])] ?? [9, 0];
        const version = [base, ...requirements.map((r) => [r.since[0], r.since[1]] as const)].reduce(
          (a, b) => (b[0] > a[0] || (b[0] === a[0] && b[1] > a[1]) ? b : a),
        );
        const pair = generated.mnemonic.includes("cta_group::2") ? "pair" : "";
        const key = `${target} ${version.join(".")} ${pair}`;
        const list = jobs.get(key) ?? [];
        list.push(printInstruction(makeInstruction(generated.mnemonic, generated.operands)));
        jobs.set(key, list);
      }
    }
    let assembled = 0;
    const faults = await inPairs([...jobs], async ([key, list]) => {
      const [target = "", version = ""] = key.split(" ");
      const text = wrap(list.join("\n"), target, version);
      const lines = text.split("\n");
      const { cubin, log } = await assemble(text);
      assembled += list.length;
      if (cubin !== null) return [];
      const errors = [...log.matchAll(/line (\d+); (?:error|fatal)\s*:\s*(.*)/g)];
      if (errors.length === 0) return [`${key}: ${log.slice(0, 400)}`];
      return errors
        .filter(([, , message = ""]) => !VALUE_RULES.test(message))
        .map(([, line, message]) => `${key}: ${lines[Number(line) - 1]}: ${message}`);
    });
    expect(faults.flat()).toEqual([]);
    expect(assembled).toBeGreaterThan(1000);
  },
  slow ? 300_000 : 90_000,
);

test("a row's requirement is checked: one version or target less is refused", () => {
  for (const [index, row] of rows.entries()) {
    const generated = generateInstruction(row, random(index + 7));
    if (!generated) continue;
    const resolution = resolveMnemonic(generated.mnemonic);
    if (!resolution.ok || resolution.forms.length > 1) continue;
    const [major, minor, sm] = row.since;
    const result = parseModule(
      wrap(printInstruction(makeInstruction(generated.mnemonic, generated.operands))),
    );
    if (!result.ok) throw new Error(result.error.map(formatDiagnostic).join("\n"));
    if (row.only || sm > 70) {
      const old = checkModule({ ...result.value, target: "sm_70", version: [9, 0] });
      expect(
        old.map((d) => d.code),
        generated.mnemonic,
      ).toContain("TW4011");
    }
    if (major > 6 || (major === 6 && minor > 3)) {
      const target = row.only?.[0] ?? `sm_${Math.max(sm, 70)}`;
      const old = checkModule({ ...result.value, target, version: [6, 3] });
      expect(
        old.map((d) => d.code),
        generated.mnemonic,
      ).toContain("TW4010");
    }
  }
});

// PTX ISA 9.0, 9.7.9.27.1.2, and ptxas 13.0: into the shared memory of the own CTA from sm_100 on, into a cluster's on datacentre Blackwell alone.
test.each([
  ["shared::cta", "", "sm_120a", true],
  ["shared::cta", "", "sm_100", true],
  ["shared::cta", "", "sm_90a", false],
  ["shared::cta", ".cta_group::2", "sm_100", false],
  ["shared::cluster", "", "sm_100", false],
  ["shared::cluster", "", "sm_120a", false],
  ["shared::cluster", ".cta_group::2", "sm_100a", true],
] as const)("rows are gathered into %s%s on %s: %s", (space, group, target, legal) => {
  const copy = `.reg .b32 %g<4>; .reg .b64 %h<1>;
cp.async.bulk.tensor.2d.${space}.global.tile::gather4.mbarrier::complete_tx::bytes${group} [%g0], [%h0, {%g1, %g2, %g2, %g3, %g3}], [%g3];`;
  const module = parseModule(wrap(copy, target));
  if (!module.ok) throw new Error(module.error.map(formatDiagnostic).join("\n"));
  expect(checkModule(module.value).map(({ code }) => code)).toEqual(legal ? [] : ["TW4011"]);
});
