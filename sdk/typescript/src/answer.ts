/**
 * The most bytes of an answer in memory, and of a line of a long one. Those to batches are longest.
 */
export const MAX_ANSWER = 64 << 20;

/** Reads an answer to its end. One that is longer than most is an error. */
export async function bytesOf(answer: Response, most = MAX_ANSWER): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = answer.body?.getReader();
  for (;;) {
    const { done, value } = await reader?.read() ?? { done: true, value: undefined };
    if (done || !value) break;
    size += value.length;
    if (size > most) {
      await reader?.cancel().catch(() => {});
      throw new Error(`the answer is longer than ${most} bytes`);
    }
    parts.push(value);
  }
  const [only] = parts;
  if (only && parts.length === 1) return only;
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export const textOf = async (answer: Response, most?: number): Promise<string> => new TextDecoder().decode(await bytesOf(answer, most));

export const jsonOf = async (answer: Response, most?: number): Promise<unknown> => JSON.parse(await textOf(answer, most));
