/** The manual page, tilewright(1), from the commands themselves: roff with the macros of man(7). */
import { version } from "../version.ts";
import { flagColumn, type HelpSource } from "./help.ts";

/** In ASCII, which every man(1) reads. A line that begins with a dot is a request, and a backslash begins an escape. */
const roff = (text: string): string =>
  text
    .replaceAll("…", "...")
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replace(/^([.'])/gm, "\\&$1");

function section(command: HelpSource): string {
  const flags = command.slots
    .filter(({ names }) => names.length > 0)
    .map((slot) => `.TP\n.B ${roff(flagColumn(slot))}\n${roff(slot.meta.summary)}`);
  const examples = command.examples.map(
    ({ what, line }) => `.PP\n${roff(what)}:\n.PP\n.RS\n.nf\n${roff(`tilewright ${line}`)}\n.fi\n.RE`,
  );
  return `.SS ${command.name}\n${roff(command.summary)}.\n.PP\n${roff(command.about)}\n${[...flags, ...examples].join("\n")}`;
}

export const manPage = (commands: readonly HelpSource[]): string =>
  `.TH TILEWRIGHT 1 "" "tilewright ${version}"
.SH NAME
tilewright \\- from a matrix multiplication and a GPU target to PTX and how to launch it
.SH SYNOPSIS
.B tilewright
.I COMMAND
.RI [ FLAGS ]
.SH COMMANDS
${commands.map(section).join("\n")}
.SH EXIT STATUS
0 ok; 1 a bug of tilewright; 2 invalid input; 3 legal, but not supported; 4 a tool is missing or failed; 5 numbers or hazards are wrong; 6 slower than asked; 130 interrupted.
.SH FILES
.I $XDG_CONFIG_HOME/tilewright/config.json
(~/.config where it is not set) has defaults: ${roff("tilewright schema config")}. TILEWRIGHT_CONFIG names another file, or none.
`;
