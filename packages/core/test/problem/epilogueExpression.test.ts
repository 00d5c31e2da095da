import type { FunctionName } from "@tilewright/core";
import {
  createRandom,
  defineProblem,
  foldExpression,
  parseEpilogue,
  parseExpression,
  parseProblem,
  plainValues,
  printEpilogue,
  printExpression,
  printProblem,
} from "@tilewright/core";
import { describe, expect, test } from "vitest";

const stepsOf = (epilogue: string): string => {
  const made = defineProblem({ m: 8, n: 4, k: 2, epilogue });
  return made.ok
    ? printEpilogue(made.value.epilogue)
    : made.error.map(({ code, at, message }) => `${code} ${at}: ${message}`).join("\n---\n");
};

describe("expressions that are chains become the steps", () => {
  test.each([
    ["acc", "none"],
    ["relu(acc)", "activation(relu)"],
    [
      "silu(acc * scale[n] + bias[n]) * gate[m,n]",
      "scale(n,f32)|bias(n,f32)|activation(silu)|gate(f32:row:4:16)",
    ],
    ["bias[m]:bf16 + acc", "bias(m,bf16)"],
    ["s[scalar] * (t[tensor] * acc)", "scale(tensor,f32)|scale(scalar,f32)"],
    ["c[m,n]:bf16:col + clamp(acc, -1, 2)", "clamp(-1,2)|residual(bf16:col:8:16)"],
    ["bf16(acc)", "cast(bf16,ieee)"],
    ["acc + b[n] | relu | acc * s[m]", "bias(n,f32)|activation(relu)|scale(m,f32)"],
  ])("%s", (text, steps) => expect(stepsOf(text)).toBe(steps));

  test("a step's operand keeps its name in JSON, and has none in text", () => {
    const made = defineProblem({ m: 8, n: 4, k: 2, epilogue: "acc + shift[n]" });
    expect(made.ok && made.value.epilogue).toEqual([
      { kind: "bias", along: "n", dtype: "f32", name: "shift" },
    ]);
  });
});

describe("others load their operands and map", () => {
  test.each([
    ["acc * acc", "map(acc*acc)"],
    ["acc * 0.5", "map(acc*0.5)"],
    ["acc - b[n]", "load(n,f32)|map(acc-$0)"],
    ["b[n] + acc * b[n]", "load(n,f32)|map($0+acc*$0)"],
    [
      "relu | silu(acc) * acc + c[m,n] + c[m,n]",
      "activation(relu)|source(f32:row:4:16)|map(silu(acc)*acc+$1+$1)",
    ],
    ["-(-acc) - (1 - (acc - -2))", "map(-(-acc)-(1-(acc-(-2))))"],
  ])("%s", (text, steps) => {
    expect(stepsOf(text)).toBe(steps);
    expect(stepsOf(steps)).toBe(steps);
  });

  test("a problem with one goes through its text", () => {
    const made = defineProblem({ m: 8, n: 4, k: 2, epilogue: "max(acc, b[n]) / (1 + abs(acc))" });
    if (!made.ok) throw new Error(JSON.stringify(made.error));
    expect(parseProblem(printProblem(made.value))).toMatchObject({
      ok: true,
      value: { epilogue: [{}, { expression: "max(acc,$0)/(1+abs(acc))" }] },
    });
  });
});

describe("faults point into the text, all at once", () => {
  test.each([
    [
      "sillu(ac * 2) + max(acc)",
      [
        ["column 1", "did you mean silu?"],
        ["column 7", "did you mean acc?"],
        ["column 17", "write max(x, y)"],
      ],
    ],
    [
      "acc + b[k] + c[n]:bf15",
      [
        ["column 9", "write b[n]"],
        ["column 19", "did you mean bf16?"],
      ],
    ],
    ["acc + (b[n]", [["column 12", "close what ( opened"]]],
    ["acc b[n]", [["column 5", "+ - * /"]]],
    ["acc + b[n] + b[m]", [["column 14", "another name"]]],
    ["acc + 1e99", [["column 7", "f32"]]],
    ["2 * b[n]", [["epilogue", "acc is alpha"]]],
    ["relu|acc + §", [["part 2, column 7", "values are"]]],
  ] as const)("%s", (text, wanted) => {
    const made = parseEpilogue(text);
    if (made.ok) throw new Error("it parses");
    expect(made.error.map(({ code }) => code)).toEqual(wanted.map(() => "TW1013"));
    wanted.forEach(([at, hint], i) => {
      expect(made.error[i]?.at).toContain(at);
      expect(made.error[i]?.hint).toContain(hint);
    });
  });

  test("the caret stands below the fault", () => {
    const made = parseEpilogue("acc * skale(acc)");
    expect(!made.ok && made.error[0]?.message.split("\n").slice(1)).toEqual(["acc * skale(acc)", "      ^"]);
  });

  test.each([
    ["map(acc*$0)", "no step before loads $0"],
    ["load(n,f32)|map(up*$0)", "only gated products have 'up'"],
    ["map(acc+)", "a value is missing"],
  ])("a map that cannot be: %s", (text, message) => expect(stepsOf(text)).toContain(message));
});

test("random text is an epilogue or has faults, and never more", () => {
  const random = createRandom(18);
  const words = [
    "acc",
    "b[n]",
    "c[m,n]",
    "(",
    ")",
    "+",
    "-",
    "*",
    "/",
    ",",
    "[",
    "]",
    ":",
    "|",
    "silu",
    "max(",
    "clamp(",
    "1.5",
    "1e9",
    "map(",
    "$0",
    "bf16",
    "x",
    "é",
    " ",
    "up",
    "\n",
  ];
  for (let i = 0; i < 4000; i++) {
    const text = Array.from(
      { length: random.integer(1, 14) },
      () => words[random.integer(0, words.length - 1)],
    ).join("");
    const made = defineProblem({ m: 8, n: 4, k: 2, epilogue: text });
    if (made.ok) expect(stepsOf(printEpilogue(made.value.epilogue))).toBe(printEpilogue(made.value.epilogue));
    else expect(made.error.length).toBeGreaterThan(0);
  }
  for (const text of [
    "(".repeat(5000),
    `${"(".repeat(500)}acc`,
    `acc${"+acc".repeat(900)}`,
    `${"-".repeat(3000)}acc`,
    `acc|${"relu|".repeat(500)}relu`,
  ])
    expect(typeof stepsOf(text)).toBe("string");
});

test("what is printed means what was parsed", () => {
  const random = createRandom(20);
  const draw = (depth: number): string => {
    if (depth === 0) return ["x", "y", "3", "0.25", "-2"][random.integer(0, 4)] ?? "x";
    const [a, b] = [draw(depth - 1), draw(random.integer(0, depth - 1))];
    return (
      [
        `(${a}+${b})`,
        `${a}-(${b})`,
        `(${a})*(${b})`,
        `(${a})/(${b})`,
        `-(${a})`,
        `max(${a},${b})`,
        `${a}+${b}*${a}`,
      ][random.integer(0, 6)] ?? a
    );
  };
  const names = { known: ["x", "y"], leaf: (name: string) => (name === "x" || name === "y" ? name : null) };
  const read = (text: string) => {
    const made = parseExpression<string>(text, names, "TW1013", "text");
    if (!made.ok) throw new Error(text);
    return made.value;
  };
  const value = (text: string): number =>
    foldExpression<string, number>(read(text), {
      number: (x) => x,
      leaf: (leaf) => (leaf === "x" ? 1.5 : -7),
      apply: (fn: FunctionName, [x = 0, y = 0]) => plainValues[fn as keyof typeof plainValues](x, y),
    });
  for (let i = 0; i < 500; i++) {
    const text = draw(random.integer(1, 4));
    const printed = printExpression(read(text), (leaf) => leaf);
    expect(value(printed), `${text} as ${printed}`).toEqual(value(text));
    expect(printExpression(read(printed), (leaf) => leaf)).toBe(printed);
  }
});
