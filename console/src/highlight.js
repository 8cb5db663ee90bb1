// Code in colours.  highlight.js makes markup, which passes through the
// sanitizer: only elements and classes are left of it.

import DOMPurify from "dompurify";
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import nginx from "highlight.js/lib/languages/nginx";
import perl from "highlight.js/lib/languages/perl";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const LONGEST = 20000; // characters; more takes too long at once

Object.entries({
  bash, c, cpp, csharp, css, diff, go, ini, java, javascript, json, nginx,
  perl, php, python, ruby, rust, sql, typescript, xml, yaml,
}).forEach(([name, language]) => hljs.registerLanguage(name, language));

// <code class="language-js">; what is not known stays as it is

export function highlight(code) {
  const [, language] = /(?:^| )language-([\w+#-]+)/.exec(code.className) ?? [];
  const text = code.textContent;

  if (!language || !hljs.getLanguage(language) || text.length > LONGEST) {
    return;
  }

  const { value } = hljs.highlight(text, { language, ignoreIllegals: true });

  code.replaceChildren(
    DOMPurify.sanitize(value, {
      ALLOWED_TAGS: ["span"],
      ALLOWED_ATTR: ["class"],
      RETURN_DOM_FRAGMENT: true,
    }),
  );
}
