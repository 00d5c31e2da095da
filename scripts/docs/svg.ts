/** What pictures of the docs are made of. */

const escapes: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
const escaped = (text: string): string => text.replace(/[&<>]/g, (sign) => escapes[sign] ?? sign);

const style = `<style>
text { font: 12px system-ui, sans-serif; fill: #1b2430; } .soft { fill: #556070; font-size: 11px; } .head { font-size: 15px; font-weight: 600; }
.bar { fill: #2563eb; } .less { fill: #c2410c; } .line { stroke: #1b2430; } .grid { stroke: #d7dce3; } .end { text-anchor: end; } .mid { text-anchor: middle; } .back { fill: #ffffff; } .box { fill: #f3f5f8; stroke: #c3cad4; } .mono { font: 11.5px ui-monospace, monospace; } .strong { font-weight: 600; }
@media (prefers-color-scheme: dark) { text { fill: #e4e9f0; } .soft { fill: #a2aebd; } .bar { fill: #6ea0ff; } .less { fill: #f0935a; } .line { stroke: #e4e9f0; } .grid { stroke: #2c3643; } .back { fill: #10151c; } .box { fill: #1a212b; stroke: #3a4656; } }
</style>`;

/** A picture of so many pixels that follows the reader's colour scheme. */
export const svg = (width: number, height: number, title: string, body: readonly string[]): string =>
  [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escaped(title)}">`,
    style,
    `<rect class="back" width="${width}" height="${height}"/>`,
    ...body,
    "</svg>",
    "",
  ].join("\n");

/** Words at a place: `kind` is one of the classes above. */
export const text = (x: number, y: number, said: string, kind = ""): string =>
  `<text x="${x}" y="${y}"${kind === "" ? "" : ` class="${kind}"`}>${escaped(said)}</text>`;
