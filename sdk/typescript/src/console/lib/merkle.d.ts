import type { Form } from "./form.js";

export interface Step {
  sibling: string;
  position: "left" | "right";
}

export const proofForm: Form<Step[]>;
export function climb(leaf: string, proof: Step[]): Promise<{ root: string }>;
