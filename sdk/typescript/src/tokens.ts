// Tokens that tell others who an agent is, each renewed before it ends.

/** What a token is asked for. agentId is the agent of the credential unless it says otherwise. */
export interface TokenRequest {
  agentId?: string;
  /** Who is to accept it; at most 10. */
  audience: string | readonly string[];
  /** ES256 when absent. */
  alg?: "ES256" | "RS256" | "EdDSA";
  /** Seconds until it ends, from 1 to 3600; 300 when absent. */
  ttl?: number;
}

/** A JWT of the company's issuer. */
export interface IssuedToken {
  token: string;
  tokenType: string;
  expiresAt: string;
}

/** How long before its end, in milliseconds, a token is replaced, but at most half of its life. */
const EARLY = 60_000;

/** How many are remembered: a program has few audiences. */
const MOST = 1000;

interface Entry {
  token?: IssuedToken;
  renew: number;
  ends: number;
  coming?: Promise<IssuedToken> | undefined; // shared by all calls that wait for it
}

export class IssuedTokens {
  #entries = new Map<string, Entry>();

  constructor(readonly issue: (request: TokenRequest & { agentId: string }) => Promise<IssuedToken>) {}

  get(request: TokenRequest & { agentId: string }): Promise<IssuedToken> {
    const name = JSON.stringify([request.agentId, request.audience, request.alg, request.ttl]);
    let entry = this.#entries.get(name);
    if (!entry) {
      if (this.#entries.size >= MOST) this.#entries.clear();
      this.#entries.set(name, entry = { renew: 0, ends: 0 });
    }
    if (entry.token && Date.now() < entry.renew) return Promise.resolve(entry.token);
    const { token, ends } = entry;
    const here = entry;
    entry.coming ??= this.#renew(request, entry).catch((error: unknown) => {
      if (token && Date.now() < ends) return token;
      throw error;
    }).finally(() => { here.coming = undefined; });
    return entry.coming;
  }

  async #renew(request: TokenRequest & { agentId: string }, entry: Entry): Promise<IssuedToken> {
    const asked = Date.now();
    entry.token = await this.issue(request);
    const life = (request.ttl ?? 300) * 1000;
    entry.renew = asked + life - Math.min(EARLY, life / 2);
    entry.ends = asked + life - Math.min(5_000, life / 2);
    return entry.token;
  }
}
