// For pages that are written with the AI SDK, on a location with
// "agentstream_protocol ai-sdk".

// The parts of a message that are valid.  The library keeps everything that
// has come; what the agent has taken back is named by a part "data-discarded",
// and "data-reset" stands where the turn was told again from its beginning.  A
// data part with an id is replaced where it first was, so it is valid wherever
// it is.
export function validParts(parts) {
  const start = parts.findLastIndex(({ type }) => type === "data-reset");
  const gone = parts.filter(({ type }) => type === "data-discarded");

  return parts.filter((part, i) => {
    const seq = part.providerMetadata?.agentstream?.seq;

    return (i > start || (part.id && "data" in part))
      && !gone.some(({ data }) => seq >= data.from && seq <= data.to);
  });
}
