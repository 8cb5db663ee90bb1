// Keeps the end in view, until the reader scrolls up; a button goes back.

const NEAR = 48; // pixels

export class Scroller {
  constructor(element, button) {
    this.element = element;
    this.button = button;
    this.pinned = true;
    this.top = 0;

    element.addEventListener("scroll", () => this.scrolled(), {
      passive: true,
    });
    button.addEventListener("click", () => this.pin());
    addEventListener("resize", () => this.follow());
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.element;

    if (scrollHeight - scrollTop - clientHeight < NEAR) {
      this.pinned = true;
    } else if (scrollTop < this.top - 1) {
      this.pinned = false;
    }

    this.top = scrollTop;
    this.button.hidden = this.pinned;
  }

  pin() {
    this.pinned = true;
    this.button.hidden = true;
    this.follow();
  }

  reset() {
    this.top = 0;
    this.pin();
  }

  follow() {
    if (this.pinned) {
      this.element.scrollTop = this.element.scrollHeight;
      this.top = this.element.scrollTop;
    }
  }
}
