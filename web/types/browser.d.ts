// Trusted Types, which the compiler's own declarations of a browser lack.
interface TrustedTypePolicy { createScriptURL(url: string): string }
interface TrustedTypePolicyFactory {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): TrustedTypePolicy;
}
declare var trustedTypes: TrustedTypePolicyFactory | undefined;
