// Changes of files, from what a tool call says about them.

const MOST = 1500; // lines of a side that are compared

// -> [{ path, kind, rows, added, removed }]; a row is [sign, old, new, text]

export function changesOf({ content, rawOutput }) {
  const metadata = rawOutput?.metadata ?? {};
  const patches = [];

  if (Array.isArray(metadata.files)) {
    for (const file of metadata.files) {
      patches.push({
        path: file.relativePath ?? file.filePath,
        kind: file.type,
        patch: file.patch ?? file.diff,
        before: file.before,
        after: file.after,
      });
    }
  } else if (typeof (metadata.filediff?.patch ?? metadata.diff) === "string") {
    patches.push({
      path: metadata.filediff?.file,
      patch: metadata.filediff?.patch ?? metadata.diff,
    });
  }

  const blocks = (content ?? []).filter((block) => block.type === "diff");

  if (patches.length === 0) {
    for (const { path, oldText, newText } of blocks) {
      patches.push({
        path,
        kind: oldText === null ? "write" : "update",
        before: oldText ?? "",
        after: newText,
      });
    }
  }

  return patches.map(({ path, kind, patch, before, after }) => {
    const rows =
      typeof patch === "string" && patch.includes("@@")
        ? unified(patch)
        : compare(before ?? "", after ?? "");

    return {
      path: path ?? blocks[0]?.path ?? /^\+\+\+ (\S+)/m.exec(patch ?? "")?.[1],
      kind,
      rows,
      added: rows.filter(([sign]) => sign === "+").length,
      removed: rows.filter(([sign]) => sign === "-").length,
    };
  });
}

function unified(patch) {
  const rows = [];
  let before = 0;
  let after = 0;
  let inside = false;

  for (const line of patch.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)/.exec(line);

    if (hunk) {
      [before, after] = [Number(hunk[1]), Number(hunk[2])];
      inside = true;
      rows.push(["@", null, null, hunk[3].trim()]);
    } else if (/^(Index: |diff )/.test(line)) {
      inside = false;
    } else if (inside && line[0] === "+") {
      rows.push(["+", null, after++, line.slice(1)]);
    } else if (inside && line[0] === "-") {
      rows.push(["-", before++, null, line.slice(1)]);
    } else if (inside && line[0] === " ") {
      rows.push([" ", before++, after++, line.slice(1)]);
    }
  }

  // one hunk alone needs no line between hunks

  return rows.filter(([sign], i) => sign !== "@" || i > 0);
}

const linesOf = (text) =>
  text === "" ? [] : text.replace(/\n$/, "").split("\n");

// The longest common subsequence of what is between the common ends.

function compare(before, after) {
  const a = linesOf(before);
  const b = linesOf(after);
  const rows = [];
  let start = 0;
  let end = 0;

  while (start < a.length && start < b.length && a[start] === b[start]) {
    start++;
  }

  while (
    end < a.length - start &&
    end < b.length - start &&
    a[a.length - 1 - end] === b[b.length - 1 - end]
  ) {
    end++;
  }

  const n = a.length - start - end;
  const m = b.length - start - end;
  const from = Math.max(0, start - 3);

  for (let i = from; i < start; i++) {
    rows.push([" ", i + 1, i + 1, a[i]]);
  }

  let i = 0;
  let j = 0;

  if (n <= MOST && m <= MOST) {
    const width = m + 1;
    const table = new Uint16Array((n + 1) * width);

    for (let x = n - 1; x >= 0; x--) {
      for (let y = m - 1; y >= 0; y--) {
        table[x * width + y] =
          a[start + x] === b[start + y]
            ? table[(x + 1) * width + y + 1] + 1
            : Math.max(table[(x + 1) * width + y], table[x * width + y + 1]);
      }
    }

    while (i < n && j < m) {
      if (a[start + i] === b[start + j]) {
        rows.push([" ", start + i + 1, start + j + 1, a[start + i]]);
        i++;
        j++;
      } else if (
        table[(i + 1) * width + j] >= table[i * width + j + 1]
      ) {
        rows.push(["-", start + i + 1, null, a[start + i++]]);
      } else {
        rows.push(["+", null, start + j + 1, b[start + j++]]);
      }
    }
  }

  for (; i < n; i++) {
    rows.push(["-", start + i + 1, null, a[start + i]]);
  }

  for (; j < m; j++) {
    rows.push(["+", null, start + j + 1, b[start + j]]);
  }

  for (let k = 0; k < Math.min(3, end); k++) {
    const x = a.length - end + k;
    const y = b.length - end + k;

    rows.push([" ", x + 1, y + 1, a[x]]);
  }

  return rows;
}
