// What Node.js 18 lacks and the client uses.  The client asks for 20.3 and has
// nothing of this: Debian 12, where the tests run, has 18.

import { webcrypto } from "node:crypto";

globalThis.crypto ??= webcrypto;

AbortSignal.any ??= (signals) => {
  const abort = new AbortController();

  for (const signal of signals) {
    if (signal.aborted) {
      abort.abort(signal.reason);
    }

    signal.addEventListener("abort", () => abort.abort(signal.reason));
  }

  return abort.signal;
};
