/** Elements without a framework: a function for a tag, its attributes and what is inside. */

type Child = Node | string | number | null | false | readonly Child[];

type Attributes = Readonly<
  Record<string, string | number | boolean | null | undefined | ((event: never) => void)>
>;

function append(parent: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === false) continue;
    if (typeof child === "object" && !(child instanceof Node)) append(parent, child as readonly Child[]);
    else parent.append(child instanceof Node ? child : String(child));
  }
}

function set(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function")
      element.addEventListener(name.replace(/^on/, ""), value as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** An element of HTML; `on…` attributes are listeners. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  set(element, attributes);
  append(element, children);
  return element;
}

/** An element of SVG. */
export function s(tag: string, attributes: Attributes = {}, ...children: readonly Child[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, attributes);
  append(element, children);
  return element;
}

/** Put these in the place of all that an element holds. */
export function fill(element: Element, ...children: readonly Child[]): void {
  element.replaceChildren();
  append(element, children);
}

/** A table with a caption for readers that do not see it. */
export function table(
  caption: string,
  heads: readonly string[],
  rows: readonly (readonly Child[])[],
  attributes: Attributes = {},
): HTMLElement {
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      attributes,
      h("caption", { class: "hidden" }, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((head) => h("th", { scope: "col" }, head)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            row.map((cell) => h("td", {}, cell)),
          ),
        ),
      ),
    ),
  );
}

/** A figure in a few digits: `1.24`, `310`, `0.0031`. */
export const short = (value: number): string =>
  !Number.isFinite(value)
    ? String(value)
    : value === 0
      ? "0"
      : Math.abs(value) >= 1000
        ? Math.round(value).toLocaleString("en-US")
        : String(Number(value.toPrecision(3)));

/** How long compiling took; `ms` is null of what the page came with. */
export const spent = (ms: number | null): string =>
  ms === null ? "when the page was built" : `in ${short(ms)} ms`;

export const bytesText = (bytes: number): string =>
  bytes >= 2 ** 20
    ? `${short(bytes / 2 ** 20)} MiB`
    : bytes >= 1024
      ? `${short(bytes / 1024)} KiB`
      : `${bytes} B`;

/** Save data under a name, as a download. */
export function download(name: string, type: string, data: BlobPart): void {
  const url = URL.createObjectURL(new Blob([data], { type }));
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
