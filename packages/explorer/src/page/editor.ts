/** An editor of one text: colours, places of faults, lines that are linked to another text, and the difference from the text before. */
import { autocompletion, type CompletionSource } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { foldGutter, foldKeymap, foldService, indentUnit } from "@codemirror/language";
import { type Diagnostic as Lint, lintGutter, setDiagnostics } from "@codemirror/lint";
import { unifiedMergeView } from "@codemirror/merge";
import { Compartment, EditorState, type Extension, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  EditorView,
  GutterMarker,
  gutter,
  highlightActiveLine,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import type { Diagnostic } from "@tilewright/core";
import { colours, type LanguageName, languages } from "./languages.ts";

const setLinked = StateEffect.define<readonly number[]>();

const linkedLine = Decoration.line({ class: "cm-linked" });

const linked = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(lines, transaction) {
    let next = lines.map(transaction.changes);
    for (const effect of transaction.effects)
      if (effect.is(setLinked))
        next = Decoration.set(
          effect.value
            .filter((line) => line >= 1 && line <= transaction.state.doc.lines)
            .toSorted((a, b) => a - b)
            .map((line) => linkedLine.range(transaction.state.doc.line(line).from)),
        );
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

class PlantMarker extends GutterMarker {
  override toDOM(): Node {
    const mark = document.createElement("span");
    mark.textContent = "✕";
    mark.title = "Plant a fault: take this line out";
    return mark;
  }
}

const plantMarker = new PlantMarker();

/** Braces that a line opens are folded to where they close. */
const braces = foldService.of((state, from) => {
  const first = state.doc.lineAt(from);
  if (!/\{\s*$/.test(first.text)) return null;
  const indent = /^\s*/.exec(first.text)?.[0].length ?? 0;
  for (let n = first.number + 1; n <= state.doc.lines; n++) {
    const line = state.doc.line(n);
    if (/^\s*\}/.test(line.text) && (/^\s*/.exec(line.text)?.[0].length ?? 0) === indent)
      return { from: first.to, to: line.to - 1 };
  }
  return null;
});

export interface EditorOptions {
  readonly parent: HTMLElement;
  readonly language: LanguageName;
  /** What a screen reader says that it is. */
  readonly label: string;
  readonly editable: boolean;
  /** Without line numbers, as tall as its text. */
  readonly small?: boolean;
  readonly complete?: CompletionSource;
  /** Somebody has typed. */
  readonly changed?: (text: string) => void;
  /** The cursor has come to a line. */
  readonly moved?: (line: number) => void;
  /** Lines that can be taken out by a click beside them. */
  readonly plants?: (text: string) => ReadonlySet<number>;
  readonly planted?: (line: number) => void;
}

export class Editor {
  readonly view: EditorView;
  readonly #diff = new Compartment();
  readonly #readOnly = new Compartment();
  readonly #options: EditorOptions;
  #quiet = false;
  /** What the text is compared with; null: nothing. */
  #before: string | null = null;
  /** Underlined places. */
  #faults = 0;
  #plantable: ReadonlySet<number> = new Set();

  constructor(options: EditorOptions) {
    this.#options = options;
    const { parent, language, label, small = false, complete } = options;
    const extensions: Extension[] = [
      languages[language],
      colours,
      history(),
      linked,
      indentUnit.of("  "),
      keymap.of([...defaultKeymap, ...historyKeymap, ...foldKeymap]),
      EditorView.contentAttributes.of({ "aria-label": label }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged && !this.#quiet) options.changed?.(update.state.doc.toString());
        if (update.selectionSet && !this.#quiet)
          options.moved?.(update.state.doc.lineAt(update.state.selection.main.head).number);
      }),
      this.#diff.of([]),
      this.#readOnly.of(this.#access(options.editable)),
      small
        ? EditorView.lineWrapping
        : [lineNumbers(), foldGutter(), braces, highlightActiveLine(), lintGutter()],
      complete === undefined ? [] : autocompletion({ override: [complete], activateOnTyping: true }),
      options.plants === undefined ? [] : this.#plantGutter(),
    ];
    this.view = new EditorView({ parent, state: EditorState.create({ doc: "", extensions }) });
    // By keys, a text that is not edited scrolls, too.
    this.view.scrollDOM.tabIndex = 0;
  }

  #access = (editable: boolean): Extension => [EditorState.readOnly.of(!editable)];

  #plantGutter(): Extension {
    return gutter({
      class: "cm-plants",
      lineMarker: (view, block) =>
        this.#plantable.has(view.state.doc.lineAt(block.from).number) ? plantMarker : null,
      initialSpacer: () => plantMarker,
      domEventHandlers: {
        click: (view, block) => {
          const line = view.state.doc.lineAt(block.from).number;
          if (!this.#plantable.has(line)) return false;
          this.#options.planted?.(line);
          return true;
        },
      },
    });
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  /** Show a text; the cursor stays where it can. Nothing is told to listeners. `before`: the text to show the difference from. */
  show(text: string, { editable = this.#options.editable, before = null as string | null } = {}): void {
    this.#quiet = true;
    this.#plantable = this.#options.plants?.(text) ?? new Set();
    const { doc, selection } = this.view.state;
    const same = doc.toString() === text;
    const head = Math.min(selection.main.head, text.length);
    this.view.dispatch({
      ...(same ? {} : { changes: { from: 0, to: doc.length, insert: text }, selection: { anchor: head } }),
      effects: [this.#readOnly.reconfigure(this.#access(editable)), this.#diff.reconfigure([])],
    });
    // Once the text stands: ranges that are unchanged are found, and folded, in the text before a transaction.
    this.#before = before === text ? null : before;
    this.#compare(true);
    this.#quiet = false;
  }

  /** Show the difference from the text before, where there is one. `fold`: what is unchanged. */
  #compare(fold: boolean): void {
    if (this.#before === null) return;
    const shown = unifiedMergeView({
      original: this.#before,
      mergeControls: false,
      syntaxHighlightDeletions: true,
      ...(fold ? { collapseUnchanged: { margin: 3, minSize: 8 } } : {}),
    });
    this.view.dispatch({ effects: this.#diff.reconfigure(shown) });
  }

  /** Unfold what is unchanged where it hides a place. */
  #open(at: number): void {
    const line = this.view.state.doc.lineAt(at);
    const block = this.view.lineBlockAt(at);
    if (block.from < line.from || block.to > line.to) this.#compare(false);
  }

  /** Mark lines (from 1), and bring the first into view where it is not. */
  link(lines: readonly number[], reveal = true): void {
    const [first] = lines;
    const { doc } = this.view.state;
    const at = first === undefined || first < 1 || first > doc.lines ? null : doc.line(first).from;
    if (at !== null && reveal) this.#open(at);
    this.view.dispatch({
      effects: [
        setLinked.of(lines),
        ...(at === null || !reveal ? [] : [EditorView.scrollIntoView(at, { y: "center" })]),
      ],
    });
  }

  /** Put the cursor on a line (from 1). */
  goto(line: number): void {
    const { doc } = this.view.state;
    if (line < 1 || line > doc.lines) return;
    const { from } = doc.line(line);
    this.#open(from);
    this.view.dispatch({
      selection: { anchor: from },
      effects: EditorView.scrollIntoView(from, { y: "center" }),
    });
    this.view.focus();
  }

  /** Underline what diagnostics with a place are about. */
  fault(found: readonly Diagnostic[]): void {
    // Every dispatch lays the page out.
    if (found.length === 0 && this.#faults === 0) return;
    const { doc } = this.view.state;
    const lints = found.flatMap(({ location, code, message, hint }): readonly Lint[] => {
      if (location === undefined || location.line > doc.lines) return [];
      const line = doc.line(location.line);
      const from = Math.min(line.to, line.from + location.column - 1);
      return [
        {
          from,
          to: line.to,
          severity: "error",
          message: `${code}: ${message}${hint === undefined ? "" : `\n${hint}`}`,
        },
      ];
    });
    this.#faults = lints.length;
    this.view.dispatch(setDiagnostics(this.view.state, lints));
  }
}
