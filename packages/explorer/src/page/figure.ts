/** A picture with its words, and a way to keep it as a file. */
import { download, h } from "./dom.ts";

/** What a style sheet says of an element of a picture; layout is in the picture itself. */
const styled = [
  ...["fill", "fill-opacity", "stroke", "stroke-width", "opacity"],
  ...["font-size", "font-family", "font-weight", "text-anchor"],
] as const;

/** An SVG file that needs no style sheet, as it is shown: on the page's background, in the page's colours. */
function standalone(svg: SVGElement): string {
  const copy = svg.cloneNode(true) as SVGElement;
  const [shown, copied] = [svg, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  shown?.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of styled) copied?.[i]?.setAttribute(name, style.getPropertyValue(name));
    copied?.[i]?.removeAttribute("class");
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("style", `background: ${getComputedStyle(document.body).backgroundColor}`);
  return copy.outerHTML;
}

/** The first picture of the content can be kept: one that is there, or the one that is drawn when it is asked for. */
export function figure(
  name: string,
  about: string,
  ...content: readonly (HTMLElement | SVGElement | null)[]
): HTMLElement {
  const save = h(
    "button",
    {
      type: "button",
      class: "small",
      "aria-label": `Keep as SVG: ${name}`,
      onclick: () => {
        const svg = holder.querySelector("svg");
        if (svg !== null) download(`${name.replace(/\W+/g, "-")}.svg`, "image/svg+xml", standalone(svg));
      },
    },
    "SVG",
  );
  const holder = h("div", { class: "picture", tabindex: 0 }, content);
  return h(
    "figure",
    {},
    h("figcaption", {}, h("h3", {}, name), about === "" ? null : h("p", { class: "hint" }, about)),
    holder,
    save,
  );
}
