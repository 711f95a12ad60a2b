import { Agent } from "./agent.js";

/**
 * An API key or an access token that somebody else keeps fresh, or an OAuth client or an agent with
 * a key of its own, which get their tokens themselves.
 */
export type Credential = string | { clientId: string; clientSecret: string } | Agent;

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
  #comparing = false; // a token has come, and the agent's keys are compared with it

  constructor(readonly credential: Credential | undefined, readonly fetchToken: (credential: Exclude<Credential, string>) => Promise<Token>, readonly compareKeys: (agent: Agent) => Promise<void>) {}

  /**
   * The credential to present, "" for none. refused is what the service has answered with 401; the
   * same once more means that there is nothing else.
   */
  async get(refused?: string): Promise<string> {
    const { credential } = this;
    if (credential === undefined || typeof credential === "string") return credential ?? "";
    if (this.#current && this.#current !== refused && Date.now() < this.#until) return this.#current;
    if (this.#comparing) return this.#current; // that the keys are refused brings no other token
    this.#coming ??= this.#renew(credential).finally(() => { this.#coming = undefined; });
    return this.#coming;
  }

  async #renew(credential: Exclude<Credential, string>): Promise<string> {
    const made = await this.fetchToken(credential);
    const life = made.expires_in * 1000;
    this.#until = Date.now() + life - Math.min(EARLY, life / 2);
    this.#current = made.access_token;
    if (credential instanceof Agent) {
      this.#comparing = true;
      try {
        await this.compareKeys(credential).catch((error: unknown) => credential.alarm(new Error(`the keys of the agent cannot be compared with those that it knows: ${String(error)}`)));
      } finally {
        this.#comparing = false;
      }
    }
    return made.access_token;
  }

  /** The headers with which a request presents a token: with a proof, if it is bound to a key. */
  async headers(token: string, method: string, url: string): Promise<Record<string, string>> {
    if (!token) return {};
    if (!(this.credential instanceof Agent) || !this.credential.dpop) return { Authorization: `Bearer ${token}` };
    return { Authorization: `DPoP ${token}`, DPoP: await this.credential.prove(method, url, token) };
  }
}
