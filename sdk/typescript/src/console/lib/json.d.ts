interface Place { start: number; end: number }
export type JSONNode =
  | (Place & { type: "object"; members: (Place & { key: string; value: JSONNode })[] })
  | (Place & { type: "array"; items: JSONNode[] })
  | (Place & { type: "string"; value: string })
  | (Place & { type: "number"; lexeme: string })
  | (Place & { type: "true" | "false" | "null" });

export function parse(source: string, maxDepth?: number): JSONNode;
export function member(node: JSONNode | undefined, key: string): JSONNode | undefined;
