// The message box: words, and pictures that are chosen, pasted or dropped.

import { h, icon } from "./dom.js";

const KINDS = /^image\/(png|jpeg|gif|webp)$/;
const LARGE = 600 * 1024; // bytes from which on a picture is made smaller
const SIDE = 1600; // pixels of its longer side then

const base64 = (blob) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();

    reader.onload = () => resolve(reader.result.replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });

// A server takes bodies of a megabyte unless told otherwise, and models shrink
// large pictures anyway.

async function shrink(file) {
  const image = await createImageBitmap(file);
  const scale = Math.min(1, SIDE / Math.max(image.width, image.height));
  const canvas = h("canvas", {
    width: Math.round(image.width * scale),
    height: Math.round(image.height * scale),
  });

  canvas
    .getContext("2d")
    .drawImage(image, 0, 0, canvas.width, canvas.height);

  return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.85));
}

export class Composer {
  constructor({ input, form, tray, attach, file, changed, refused }) {
    Object.assign(this, { input, tray, changed, refused });
    this.pictures = [];

    attach.append(icon("clip"));
    attach.addEventListener("click", () => file.click());
    file.addEventListener("change", () => {
      this.add(file.files);
      file.value = "";
    });

    input.addEventListener("input", () => this.grow());
    input.addEventListener("paste", (event) => {
      if (event.clipboardData.files.length > 0) {
        event.preventDefault();
        this.add(event.clipboardData.files);
      }
    });

    // a picture that misses the box must not replace the page

    addEventListener("dragover", (event) => {
      if ([...event.dataTransfer.types].includes("Files")) {
        event.preventDefault();
        form.classList.add("drop");
      }
    });
    addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) {
        form.classList.remove("drop");
      }
    });
    addEventListener("drop", (event) => {
      form.classList.remove("drop");

      if (event.dataTransfer.files.length > 0) {
        event.preventDefault();
        this.add(event.dataTransfer.files);
      }
    });
  }

  get empty() {
    return this.input.value.trim() === "" && this.pictures.length === 0;
  }

  blocks() {
    const text = this.input.value;

    return [
      ...(text.trim() ? [{ type: "text", text }] : []),
      ...this.pictures,
    ];
  }

  fill(text) {
    this.input.value = text;
    this.grow();
  }

  clear() {
    this.pictures = [];
    this.fill("");
    this.draw();
  }

  // what was not sent; what is written meanwhile stays

  giveBack(blocks) {
    const texts = blocks
      .filter((block) => block.type === "text")
      .map((block) => block.text);

    this.pictures = blocks.filter((block) => block.type === "image");
    this.fill([...texts, this.input.value].filter(Boolean).join("\n"));
    this.draw();
  }

  grow() {
    const { input } = this;

    input.style.height = "auto";
    input.style.height = `${Math.min(input.scrollHeight, 240)}px`;
    this.changed();
  }

  async add(files) {
    for (const file of files) {
      if (!KINDS.test(file.type)) {
        this.refused(`Only pictures can be attached, not ${file.name}`);
        continue;
      }

      try {
        const blob = file.size > LARGE ? await shrink(file) : file;

        this.pictures.push({
          type: "image",
          mimeType: blob.type,
          data: await base64(blob),
        });
      } catch {
        this.refused(`${file.name} cannot be read as a picture`);
      }
    }

    this.draw();
    this.input.focus();
  }

  draw() {
    this.tray.hidden = this.pictures.length === 0;
    this.tray.replaceChildren(
      ...this.pictures.map((picture, n) =>
        h(
          "li",
          null,
          h("img", {
            src: `data:${picture.mimeType};base64,${picture.data}`,
            alt: `Picture ${n + 1}`,
          }),
          h(
            "button.icon-button",
            {
              type: "button",
              "aria-label": `Remove picture ${n + 1}`,
              onclick: () => {
                this.pictures.splice(n, 1);
                this.draw();
                this.input.focus();
              },
            },
            icon("cross"),
          ),
        ),
      ),
    );
    this.changed();
  }
}
