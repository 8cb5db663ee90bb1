// Elements and icons, made without markup in strings: the page's policy allows
// none.

// h("button.primary", { type: "button", onclick }, "Text", child, …)

export function h(spec, props, ...children) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElement(tag);

  if (classes.length > 0) {
    element.className = classes.join(" ");
  }

  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) {
      continue;
    }

    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else if (name in element && !name.includes("-")) {
      element[name] = value;
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }

  element.append(...children.filter((child) => child || child === 0));

  return element;
}

const PATHS = {
  terminal: "M4 6l5 5-5 5M12 17h8",
  file: "M7 3h7l5 5v13H7zM14 3v5h5",
  pencil: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  search: "M10.5 4a6.5 6.5 0 100 13 6.5 6.5 0 000-13zM15.5 15.5L21 21",
  globe:
    "M12 3a9 9 0 100 18 9 9 0 000-18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  list: "M9 6h12M9 12h12M9 18h12M4 6h.01M4 12h.01M4 18h.01",
  agent: "M6 9h12v10H6zM12 9V5M12 4.5h.01M9.5 13.5h.01M14.5 13.5h.01M3 13v3M21 13v3",
  question: "M9 9a3 3 0 115 2c-1.2 1-2 1.500-2 3M12 18h.01M12 3a9 9 0 100 18 9 9 0 000-18z",
  shield: "M12 3l7 3v6c0 4-3 7.500-7 9-4-1.500-7-5-7-9V6z",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  move: "M4 12h15M14 7l5 5-5 5",
  tool: "M14.500 6.500a4 4 0 015-1l-3 3 1.500 1.500 3-3a4 4 0 01-5.500 5L8 19.500 4.500 16l7.500-7.500a4 4 0 012.500-2z",
  thought: "M9 18h6M10 21h4M12 3a6 6 0 00-4 10.500c.7.700 1 1.500 1 2.500h6c0-1 .3-1.800 1-2.500A6 6 0 0012 3z",
  check: "M5 12.500l4.500 4.500L19 7.500",
  cross: "M6 6l12 12M18 6L6 18",
  stop: "M8 8h8v8H8z",
  alert: "M12 4l9 16H3zM12 10v4M12 17h.01",
  send: "M12 19V6M6 11.500L12 5.500l6 6",
  down: "M12 5v13M6 12.500l6 6 6-6",
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  sun: "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.400 1.400M17.600 17.600L19 19M5 19l1.400-1.400M17.600 6.400L19 5",
  moon: "M20 14a8 8 0 01-10-10 8 8 0 1010 10z",
  compact: "M4 9h16M4 15h16M12 2v4M10 4.500l2 2 2-2M12 22v-4M10 19.500l2-2 2 2",
  chevron: "M9 6l6 6-6 6",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  link: "M10 14a4 4 0 005.700 0l3-3a4 4 0 00-5.700-5.700L12 6.300M14 10a4 4 0 00-5.700 0l-3 3A4 4 0 0011 18.700l1-1",
  clip: "M20 11l-8 8a5 5 0 01-7-7l9-9a3.300 3.300 0 014.700 4.700l-9 9a1.700 1.700 0 01-2.400-2.400l8-8",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.500 9h.01",
};

const SVG = "http://www.w3.org/2000/svg";

export function icon(name, extra = "") {
  const svg = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");

  svg.setAttribute("class", `icon ${extra}`.trim());
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", PATHS[name] ?? PATHS.tool);
  svg.append(path);

  return svg;
}

export const setText = (element, text) => {
  if (element.textContent !== text) {
    element.textContent = text;
  }
};

export function duration(ms) {
  if (!(ms >= 0)) {
    return "";
  }

  if (ms < 950) {
    return `${Math.max(0.1, ms / 1000).toFixed(1)} s`;
  }

  const seconds = Math.round(ms / 1000);

  return seconds < 60
    ? `${ms < 9950 ? (ms / 1000).toFixed(1).replace(/\.0$/, "") : seconds} s`
    : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

export const count = (n) => n.toLocaleString("en");

export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

// A page without TLS has no clipboard but this.

async function toClipboard(text) {
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text);
  }

  const area = h("textarea.sr", { value: text });
  const focused = document.activeElement;

  document.body.append(area);
  area.select();

  const done = document.execCommand("copy");

  area.remove();
  focused?.focus();

  if (!done) {
    throw new Error("not allowed");
  }
}

// A button that copies what `text` returns, and shows that it did.

export function copyButton(label, text, name = "copy") {
  const button = h(
    "button.icon-button.copy",
    {
      type: "button",
      "aria-label": label,
      title: label,

      async onclick() {
        const done = await toClipboard(text()).then(
          () => true,
          () => false,
        );

        button.replaceChildren(icon(done ? "check" : "cross"));
        button.setAttribute("aria-label", done ? "Copied" : "Not copied");
        setTimeout(() => {
          button.replaceChildren(icon(name));
          button.setAttribute("aria-label", label);
        }, 1500);
      },
    },
    icon(name),
  );

  return button;
}
