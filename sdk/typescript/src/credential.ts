/**
 * An API key or an access token that somebody else keeps fresh, or an OAuth client that gets its
 * tokens itself.
 */
export type Credential = string | { clientId: string; clientSecret: string };

export interface Token {
  access_token: string;
  expires_in: number;
}

/** How long before its end, in milliseconds, a token is replaced, but at most half of its life. */
const EARLY = 60_000;

/**
 * What a client presents: a key as it is; for an OAuth client a token that is got at the first
 * call, before it expires, and when the service refuses one.
 */
export class Bearer {
  #current = "";
  #until = 0;
  #coming: Promise<string> | undefined; // shared by all calls that wait for a token

  constructor(readonly credential: Credential | undefined, readonly fetchToken: (clientId: string, clientSecret: string) => Promise<Token>) {}

  /**
   * The credential to present, "" for none. refused is what the service has answered with 401; the
   * same once more means that there is nothing else.
   */
  async get(refused?: string): Promise<string> {
    const { credential } = this;
    if (credential === undefined || typeof credential === "string") return credential ?? "";
    if (this.#current && this.#current !== refused && Date.now() < this.#until) return this.#current;
    this.#coming ??= this.#renew(credential.clientId, credential.clientSecret).finally(() => { this.#coming = undefined; });
    return this.#coming;
  }

  async #renew(clientId: string, clientSecret: string): Promise<string> {
    const made = await this.fetchToken(clientId, clientSecret);
    const life = made.expires_in * 1000;
    this.#until = Date.now() + life - Math.min(EARLY, life / 2);
    return (this.#current = made.access_token);
  }
}
