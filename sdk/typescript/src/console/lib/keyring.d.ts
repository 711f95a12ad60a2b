export interface Published {
  kid: string;
  fingerprint: string;
  pem: string;
  x: string;
  fromIndex?: number;
  endedAt?: string;
  compromisedAt?: string;
  rotation?: { statement: string; oldSignature: string; newSignature: string };
}

export interface Prepared extends Published {
  companyId: string;
  spiffeId: string;
  ring?: Prepared[];
}

export function identify(raw: Uint8Array): Promise<{ kid: string; fingerprint: string }>;
export function prepareKey(published: Published & { companyId: string; spiffeId: string }): Promise<Prepared>;
export function prepareRing(keys: { companyId: string; spiffeId: string; origin: string; keys: Published[] }): Promise<Prepared>;
