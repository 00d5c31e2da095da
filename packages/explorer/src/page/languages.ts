/** Colours of tile programs, PTX, SASS and schedules: words by their kind, no grammar. */
import { HighlightStyle, StreamLanguage, type StringStream, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";

function tileToken(stream: StringStream): string | null {
  if (stream.eatSpace()) return null;
  if (stream.sol()) stream.match(/^\s*/);
  if (stream.match(/^%\w+/)) return "variableName";
  if (stream.match(/^@\w+/)) return "labelName";
  if (/^\s*$/.test(stream.string.slice(0, stream.pos)) && stream.match(/^[a-z][\w.]*/)) return "keyword";
  if (stream.match(/^\d+[\w.]*/)) return "number";
  if (stream.match(/^(?:bf16|tf32|[fsueb]\d+\w*|e\dm\d|mx\w+|nvf4)\b/)) return "typeName";
  if (stream.match(/^[A-Za-z_][\w.]*/)) return null;
  stream.next();
  return "punctuation";
}

function ptxToken(stream: StringStream): string | null {
  if (stream.eatSpace()) return null;
  if (stream.match(/^\/\/.*/)) return "comment";
  if (stream.match(/^%[\w$]+(?:\.[xyzw])?/)) return "variableName";
  if (stream.match(/^\.[a-z]\w*/)) return "definitionKeyword";
  if (stream.match(/^(?:0x[\da-fA-F]+|0[fdFD][\da-fA-F]+|\d+)/)) return "number";
  if (stream.match(/^[A-Za-z_$][\w$]*:(?!:)/)) return "labelName";
  if (stream.match(/^[a-z][\w]*(?:[.:]+\w+)*/)) return "keyword";
  stream.next();
  return "punctuation";
}

function sassToken(stream: StringStream): string | null {
  if (stream.sol() && stream.match(/^[0-9a-f]{5,}(?= )/)) return "comment";
  if (stream.eatSpace()) return null;
  if (stream.match(/^[.\w$]+:$/)) return "labelName";
  if (stream.match(/^@?!?U?P(?:\d|T)\b/)) return "definitionKeyword";
  if (stream.match(/^U?R(?:\d+|Z)\b|^SR_[\w.]+/)) return "variableName";
  if (stream.match(/^(?:-?0x[\da-f]+|-?\d[\d.]*)/)) return "number";
  if (stream.match(/^[A-Z][\w.]*/)) return "keyword";
  stream.next();
  return "punctuation";
}

function scheduleToken(stream: StringStream): string | null {
  if (stream.eatSpace()) return null;
  if (stream.match(/^\w+(?==)/)) return "keyword";
  if (stream.match(/^[^=\s]+/)) return "number";
  stream.next();
  return "punctuation";
}

function jsonToken(stream: StringStream): string | null {
  if (stream.eatSpace()) return null;
  if (stream.match(/^"(?:[^"\\]|\\.)*"(?=\s*:)/)) return "keyword";
  if (stream.match(/^"(?:[^"\\]|\\.)*"/)) return "typeName";
  if (stream.match(/^(?:-?\d[\d.eE+-]*|true|false|null)/)) return "number";
  stream.next();
  return "punctuation";
}

const language = (name: string, token: (stream: StringStream) => string | null) =>
  StreamLanguage.define({ name, token: (stream) => token(stream) });

export const languages = {
  tile: language("tile", tileToken),
  ptx: language("ptx", ptxToken),
  sass: language("sass", sassToken),
  schedule: language("schedule", scheduleToken),
  json: language("json", jsonToken),
} as const;

export type LanguageName = keyof typeof languages;

/** Colours are those of the style sheet, so that they follow the theme. */
export const colours = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.keyword, color: "var(--code-keyword)" },
    { tag: tags.definitionKeyword, color: "var(--code-declaration)" },
    { tag: tags.variableName, color: "var(--code-name)" },
    { tag: tags.labelName, color: "var(--code-label)" },
    { tag: tags.number, color: "var(--code-number)" },
    { tag: tags.typeName, color: "var(--code-type)" },
    { tag: tags.comment, color: "var(--code-comment)" },
    { tag: tags.punctuation, color: "var(--code-punctuation)" },
  ]),
);
