package attestd

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Person is a person of the company, who signs in to the console with passkeys.
type Person struct {
	ID         string          `json:"personId"`
	Name       string          `json:"name"`
	Email      string          `json:"email"` // "" for none
	Roles      []string        `json:"roles"` // of admin, approver and reader
	Groups     []string        `json:"groups"`
	Subjects   []PersonSubject `json:"subjects"`
	CreatedAt  string          `json:"createdAt"`
	DisabledAt string          `json:"disabledAt"` // "" while the person is not
	Passkeys   []Passkey       `json:"passkeys"`   // of Person alone
}

// PersonSubject is an account at an identity provider, with which a person signs in.
type PersonSubject struct {
	Issuer string `json:"issuer"`
	Sub    string `json:"sub"`
}

// Passkey is a passkey of a person.
type Passkey struct {
	CredentialID   string   `json:"credentialId"`
	Fingerprint    string   `json:"fingerprint"` // of the key
	Algorithm      int      `json:"algorithm"`   // of COSE
	Transports     []string `json:"transports"`
	BackupEligible bool     `json:"backupEligible"` // it could be synced at its enrolment
	AAGUID         string   `json:"aaguid"`
	CreatedAt      string   `json:"createdAt"`
	RevokedAt      string   `json:"revokedAt"` // "" while it is not
}

// NewPerson is the request to add a person.
type NewPerson struct {
	ID       string          `json:"personId"`
	Name     string          `json:"name"`
	Email    string          `json:"email,omitempty"`
	Roles    []string        `json:"roles"`
	Groups   []string        `json:"groups,omitempty"`
	Subjects []PersonSubject `json:"subjects,omitempty"`
}

// People lists the people of the company.
func (c *Client) People(ctx context.Context) ([]Person, error) {
	var answer struct{ People []Person }
	err := c.get(ctx, "/v1/people", nil, &answer)
	return answer.People, err
}

// CreatePerson adds a person, who cannot sign in before an invitation is used.
func (c *Client) CreatePerson(ctx context.Context, n NewPerson) (p Person, err error) {
	err = c.post(ctx, "/v1/people", http.StatusCreated, n, &p)
	return p, err
}

// Person returns a person with all passkeys.
func (c *Client) Person(ctx context.Context, id string) (p Person, err error) {
	err = c.get(ctx, "/v1/people/{personId}", nil, &p, id)
	return p, err
}

// PersonChange is what is changed of a person; nil leaves a member as it is.
type PersonChange struct {
	Name     *string         `json:"name,omitempty"`
	Email    *string         `json:"email,omitempty"` // "" removes it
	Roles    []string        `json:"roles,omitempty"`
	Groups   []string        `json:"groups,omitzero"`   // empty for none
	Subjects []PersonSubject `json:"subjects,omitzero"` // the same
	Disabled *bool           `json:"disabled,omitempty"`
}

// ChangePerson changes the members that the change names. Disabling ends the person's sessions.
func (c *Client) ChangePerson(ctx context.Context, id string, change PersonChange) (p Person, err error) {
	body, err := json.Marshal(change)
	if err != nil {
		return p, err
	}
	r := request{method: http.MethodPatch, route: "/v1/people/{personId}", path: []string{id}, body: body, status: http.StatusOK, safe: true}
	err = c.do(ctx, r, &p)
	return p, err
}

// DeletePerson revokes a person's passkeys, and ends the sessions.
func (c *Client) DeletePerson(ctx context.Context, id string) error {
	return c.delete(ctx, "/v1/people/{personId}", id)
}

// PersonInvitation is a link with which a person enrols a passkey. It is a secret.
type PersonInvitation struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// InvitePerson makes a link that counts once, for a lifetime of whole seconds; 0 is an hour.
func (c *Client) InvitePerson(ctx context.Context, id string, lifetime time.Duration) (i PersonInvitation, err error) {
	body := map[string]int{}
	if lifetime > 0 {
		body["expiresIn"] = int(lifetime / time.Second)
	}
	err = c.post(ctx, "/v1/people/{personId}/invitations", http.StatusCreated, body, &i, id)
	return i, err
}

// RevokePasskey revokes a passkey of a person, for good.
func (c *Client) RevokePasskey(ctx context.Context, id, credentialID string) error {
	return c.delete(ctx, "/v1/people/{personId}/passkeys/{credentialId}", id, credentialID)
}
