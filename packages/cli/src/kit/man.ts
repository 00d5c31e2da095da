/** The manual page, tilewright(1), from the commands themselves: roff with the macros of man(7). */
import { wrap } from "../output/wrap.ts";
import { version } from "../version.ts";
import { flagColumn, type HelpSource } from "./help.ts";

/** Columns of a line of text, with room for the escapes of its dashes. */
const LINE = 64;

/** In ASCII, which every man(1) reads. A line that begins with a dot is a request, and a backslash begins an escape. */
const roff = (text: string): string =>
  text
    .replaceAll("…", "...")
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replace(/^([.'])/gm, "\\&$1");

/** Text that is filled anew: its source keeps to the columns of any terminal. */
const prose = (text: string): string => roff(wrap(text.replaceAll("\n", " "), LINE, ""));

/** A command, which goes on behind a backslash where it is longer than a line. */
const command = (line: string): string => roff(wrap(line, LINE, "  ").replaceAll("\n", " \\\n"));

function section({ name, summary, about, slots, examples }: HelpSource): string {
  const flags = slots
    .filter(({ names }) => names.length > 0)
    .map((slot) => `.TP\n.B ${roff(flagColumn(slot))}\n${prose(slot.meta.summary)}`);
  const shown = examples.map(
    ({ what, line }) => `.PP\n${prose(what)}:\n.PP\n.RS\n.nf\n${command(`tilewright ${line}`)}\n.fi\n.RE`,
  );
  return `.SS ${name}\n${prose(summary)}.\n.PP\n${prose(about)}\n${[...flags, ...shown].join("\n")}`;
}

export const manPage = (commands: readonly HelpSource[]): string =>
  `.TH TILEWRIGHT 1 "" "tilewright ${version}"
.SH NAME
tilewright \\- ${prose("from a matrix multiplication and a GPU target to PTX and how to launch it")}
.SH SYNOPSIS
.B tilewright
.I COMMAND
.RI [ FLAGS ]
.SH COMMANDS
${commands.map(section).join("\n")}
.SH EXIT STATUS
${prose("0 ok; 1 a bug of tilewright; 2 invalid input; 3 legal, but not supported; 4 a tool is missing or failed; 5 numbers or hazards are wrong; 6 slower than asked; 130 interrupted.")}
.SH FILES
.I $XDG_CONFIG_HOME/tilewright/config.json
${prose("(~/.config where it is not set) has defaults: tilewright schema config. TILEWRIGHT_CONFIG names another file, or none.")}
`;
