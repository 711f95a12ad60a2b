import type { Form } from "./form.js";
import type { Prepared } from "./keyring.js";

export interface RecordRead {
  index: number;
  timestamp: string;
  agentId: string;
  companyId: string;
  actionType: string;
  hash: string;
  pruned: boolean;
}

export const recordForm: Form<RecordRead>;
export const controlRecordForm: Form<RecordRead>;
export function checkRecord(record: RecordRead, key: Prepared): Promise<{ ok: boolean; reason: string; computed: string; pruned: boolean }>;
