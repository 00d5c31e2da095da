/** Edits of a tile program's text as a hand could make them, and slips of one: from a seed, token by token and line by line. */
import { createRandom, type Random } from "@tilewright/core";
import { pick } from "./random.ts";

/** Words, names, numbers, operators and what lies between them: the text is their sum. */
const tokensOf = (text: string): string[] => text.match(/[%@]?[A-Za-z_$][\w$.]*|\d+|\s+|[^\s\w]/g) ?? [];

const below = (random: Random, count: number): number => random.integer(0, Math.max(1, count) - 1);

/** Numbers that edits try: around what stands there, and at the ends of what counts. */
const numberFor = (random: Random, value: number): string =>
  String(
    pick(random, [
      value + 1,
      Math.max(0, value - 1),
      2 * value,
      Math.floor(value / 2),
      0,
      1,
      7,
      64,
      1000000,
      2 ** 31 - 1,
      2 ** 31,
      99999999999999,
    ]),
  );

type Edit = (random: Random, text: string) => string;

/** An edit of the tokens, blanks left alone; as it was where there is none to edit. */
const ofTokens =
  (wanted: RegExp, change: (random: Random, tokens: string[], at: number) => void): Edit =>
  (random, text) => {
    const tokens = tokensOf(text);
    const places = tokens.flatMap((token, i) => (wanted.test(token) ? [i] : []));
    const at = places[below(random, places.length)];
    if (at !== undefined) change(random, tokens, at);
    return tokens.join("");
  };

const ofLines =
  (change: (random: Random, lines: string[], at: number, other: number) => void): Edit =>
  (random, text) => {
    const lines = text.split("\n");
    change(random, lines, below(random, lines.length), below(random, lines.length));
    return lines.join("\n");
  };

const edits: readonly Edit[] = [
  // A number is another one: three times as often as the rest.
  ...Array.from({ length: 3 }, () =>
    ofTokens(/^\d+$/, (random, tokens, at) => {
      tokens[at] = numberFor(random, Number(tokens[at]));
    }),
  ),
  ofTokens(/\S/, (_random, tokens, at) => void tokens.splice(at, 1)),
  ofTokens(/\S/, (_random, tokens, at) => void tokens.splice(at, 0, tokens[at] ?? "", " ")),
  // A word or a name takes another's place.
  ofTokens(/^[%A-Za-z]/, (random, tokens, at) => {
    const sort = tokens[at]?.startsWith("%") ? /^%/ : /^[A-Za-z]/;
    tokens[at] = pick(random, [tokens[at] ?? "", ...tokens.filter((token) => sort.test(token))]);
  }),
  ofTokens(/\S/, (random, tokens, at) => {
    const other = below(random, tokens.length);
    [tokens[at], tokens[other]] = [tokens[other] ?? "", tokens[at] ?? ""];
  }),
  ofLines((_random, lines, at) => void lines.splice(at, 1)),
  ofLines((_random, lines, at) => void lines.splice(at, 0, lines[at] ?? "")),
  ofLines((_random, lines, at, other) => {
    [lines[at], lines[other]] = [lines[other] ?? "", lines[at] ?? ""];
  }),
  ofLines((_random, lines, at, other) => void lines.splice(other, 0, ...lines.splice(at, 1))),
  // Two lines become one.
  ofLines(
    (_random, lines, at) => void lines.splice(at, 2, `${lines[at] ?? ""} ${lines[at + 1]?.trim() ?? ""}`),
  ),
];

/** The text with one to three edits, the same for the same seed. */
export function mutated(text: string, seed: number): string {
  const random = createRandom(seed);
  const count = 1 + below(random, 3) * below(random, 2);
  return Array.from({ length: count }).reduce<string>(
    (now) => edits[below(random, edits.length)]?.(random, now) ?? now,
    text,
  );
}
