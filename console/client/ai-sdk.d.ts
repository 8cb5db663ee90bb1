/**
 * The parts of an AI SDK message that are valid: without what the agent has
 * taken back, and without what came before the turn was told again.
 */
export function validParts<Part extends { type: string }>(
  parts: Part[],
): Part[];
