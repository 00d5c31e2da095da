/** Colour for people at a terminal: off for pipes, for NO_COLOR and for TERM=dumb (no-color.org, clig.dev). */
import { styleText } from "node:util";
import type { Context, Sink } from "../context.ts";

export const colourModes = ["auto", "always", "never"] as const;
export type ColourMode = (typeof colourModes)[number];

export type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

/** How text goes to a sink: wraps it in a style or returns it as it is, and knows how wide lines may be. */
export interface Paint {
  (style: Style, text: string): string;
  /** Characters of a line; infinite where nobody breaks lines, as in a file. */
  readonly width: number;
}

const plain = (_style: Style, text: string): string => text;
// The decision is made here, so node's own look at the stream (newer versions have one) must not repeat it.
const styled = (style: Style, text: string): string => styleText(style, text, { validateStream: false });

/** The painter for one sink: the flag decides, then FORCE_COLOR and NO_COLOR, then whether it is a terminal. */
export function painterFor(context: Context, sink: Sink, mode: ColourMode): Paint {
  const style = styleFor(context, sink, mode);
  // A function of its own, because the width is the sink's.
  const paint = (name: Style, text: string): string => style(name, text);
  return Object.assign(paint, { width: sink.isTTY ? (sink.columns ?? 80) : Number.POSITIVE_INFINITY });
}

function styleFor(context: Context, sink: Sink, mode: ColourMode) {
  const { env } = context;
  if (mode !== "auto") return mode === "always" ? styled : plain;
  if (env.FORCE_COLOR !== undefined && env.FORCE_COLOR !== "" && env.FORCE_COLOR !== "0") return styled;
  if (env.NO_COLOR !== undefined && env.NO_COLOR !== "") return plain;
  return sink.isTTY && env.TERM !== "dumb" ? styled : plain;
}
