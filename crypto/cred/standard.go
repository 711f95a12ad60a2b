package cred

import "slices"

// RFC 8693 §4.1 nests the other way than the delegation tokens of this package: its outermost act
// is the current actor, and the ones before stand inside. What has that nesting has another typ and
// another issuer, so that neither is read as the other. A Delegation knows one nesting alone, that
// of this package: whoever reads the other one turns it round.

// StandardAct returns the act claim of RFC 8693 of a chain, which is the subject and then each
// actor. Where the chain is the subject alone, that acts for itself: an exchange always says who
// acts, so that nobody takes its token for one of its subject's own.
func StandardAct(chain []string) []byte {
	if len(chain) < 2 {
		return appendAct(nil, chain)
	}
	actors := slices.Clone(chain[1:])
	slices.Reverse(actors)
	return appendAct(nil, actors)
}

// Standard returns the delegation of a subject and an act claim of RFC 8693, which is nil where
// nobody acts. The subject that acts for itself first is no second party of the chain. The subject
// is the caller's to check. The error is an *Error.
func (d Domain) Standard(subject string, act []byte, tokenID, scope string) (Delegation, error) {
	chain, err := d.appendActors([]string{subject}, act)
	if err != nil {
		return Delegation{}, err
	}
	slices.Reverse(chain[1:])
	if len(chain) > 1 && chain[1] == subject {
		chain = slices.Delete(chain, 1, 2)
	}
	return NewDelegation(chain, tokenID, scope), nil
}

// NewDelegation returns the delegation of a chain of at least the subject.
func NewDelegation(chain []string, tokenID, scope string) Delegation {
	d := Delegation{Subject: chain[0], Chain: chain, TokenID: tokenID, Scope: scope}
	if len(chain) > 1 {
		d.Act = appendAct(nil, chain[1:])
	}
	return d
}
