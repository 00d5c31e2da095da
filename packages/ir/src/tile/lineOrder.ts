/** In which order a walk over a register tile takes its lines, and the elements of a line: `up`, `down`, `flip`, each with a start. */

export const lineOrderKinds = ["up", "down", "flip"] as const;

/**
 * `up`: ascending; `down`: descending; `flip`: ascending by fours, each four descending (3 2 1 0 7 6 5 4). `from`: the sequence begins at this place and
 * wraps around. Which of them is fast is a matter of register banks and of what ptxas makes of it: found by search.
 */
export interface LineOrder {
  readonly kind: (typeof lineOrderKinds)[number];
  readonly from: number;
}

export const lineOrderSyntax = "up|down|flip[:FROM]";

const pattern = /^(up|down|flip)(?::(\d{1,3}))?$/;

/** `flip:4` as a value; null when it is none. */
export function parseLineOrder(text: string): LineOrder | null {
  const [, word, from] = pattern.exec(text) ?? [];
  const kind = lineOrderKinds.find((known) => known === word);
  return kind === undefined ? null : { kind, from: Number(from ?? 0) };
}

/** The text that `parseLineOrder` reads. */
export const printLineOrder = ({ kind, from }: LineOrder): string => (from === 0 ? kind : `${kind}:${from}`);

/** Lines flipped together: what one 16-byte shared load of a fragment brings. */
const FLIPPED = 4;

/** The numbers from 0 to `count` - 1 in this order: a permutation for every count and start. */
export function linesInOrder(count: number, { kind, from }: LineOrder): readonly number[] {
  const all = Array.from({ length: count }, (_, i) => i);
  const base =
    kind === "up"
      ? all
      : kind === "down"
        ? [...all].reverse()
        : all
            .map((i) => [Math.floor(i / FLIPPED), -i, i] as const)
            .sort(([p, q], [r, s]) => p - r || q - s)
            .map(([, , i]) => i);
  const start = count === 0 ? 0 : from % count;
  return [...base.slice(start), ...base.slice(0, start)];
}
