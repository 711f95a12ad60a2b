import { MAX_ANSWER } from "./answer.js";
import { AttestdError, ConnectionError } from "./errors.js";

/** The lines of an answer, as they arrive. */
export async function* lines(operation: string, answer: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const reader = answer.body!.getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += decoder.decode(value, { stream: !done });
      for (let end; (end = rest.indexOf("\n")) >= 0; rest = rest.slice(end + 1)) yield rest.slice(0, end);
      if (rest.length > MAX_ANSWER) throw new Error(`a line is longer than ${MAX_ANSWER} bytes`);
      if (done) break;
    }
    if (rest) throw new Error("it ends within a line");
  } catch (cause) {
    throw new ConnectionError(operation, cause);
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/**
 * The messages of a stream until it is closed. A browser cannot set Authorization on it, so the
 * credential goes as a subprotocol.
 */
export async function* messages(url: string, bearer: string, signal?: AbortSignal): AsyncGenerator<string> {
  if (typeof WebSocket === "undefined") throw new AttestdError("GET /v1/ws: there is no WebSocket here; Node has one from version 22 on");
  const socket = new WebSocket(url, bearer ? ["attestd.bearer", bearer] : []);
  const waiting: string[] = [];
  let ended: Error | null = null;
  let wake = () => {};
  const end = (reason: string) => {
    ended ??= new ConnectionError("GET /v1/ws", reason);
    wake();
  };
  socket.onmessage = ({ data }) => {
    waiting.push(data);
    wake();
  };
  socket.onerror = () => end("it cannot be opened, or broke off");
  socket.onclose = ({ code, reason }) => end(`closed with ${code} ${reason}`);
  const stop = () => end("the caller has ended it");
  signal?.addEventListener("abort", stop, { once: true });
  try {
    for (;;) {
      while (waiting.length) yield waiting.shift()!;
      if (signal?.aborted) return;
      if (ended) throw ended;
      await new Promise<void>((resolve) => { wake = resolve; });
    }
  } finally {
    signal?.removeEventListener("abort", stop);
    socket.close();
  }
}
