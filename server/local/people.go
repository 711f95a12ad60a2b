package local

import (
	"context"
	"errors"
	"fmt"

	"attestd/service"
	"attestd/store"
	"attestd/store/db"
)

// PersonInvitation asks for a link with which a person enrols a passkey. The person is made with
// the role where there is none.
type PersonInvitation struct {
	CompanyID string `json:"companyId"`
	PersonID  string `json:"personId"`
	Role      string `json:"role"`
}

// PersonInvited is the secret of the link.
type PersonInvited struct {
	Secret    string `json:"secret"`
	ExpiresAt string `json:"expiresAt"`
}

// InvitePerson makes an invitation, which the company's control log records.
func (o *Operations) InvitePerson(ctx context.Context, p PersonInvitation) (PersonInvited, error) {
	if p.CompanyID == db.InstallationID {
		return PersonInvited{}, fmt.Errorf("%w: %s is no company", store.ErrRefused, p.CompanyID)
	}
	by, err := o.operator(ctx, p.CompanyID)
	if err != nil {
		return PersonInvited{}, err
	}
	people := service.People{Store: o.Store, Link: func(secret string) string { return secret }}
	made, err := people.InviteFirst(ctx, by, p.PersonID, p.Role, service.InvitationLifetime)
	if refused := (*service.Error)(nil); errors.As(err, &refused) {
		err = fmt.Errorf("%w: %s", store.ErrRefused, refused.Message)
	}
	return PersonInvited{made.URL, made.ExpiresAt}, err
}

// InvitePerson is that of Operations.
func (c *Client) InvitePerson(ctx context.Context, p PersonInvitation) (found PersonInvited, err error) {
	return found, c.call(ctx, "/person/invite", p, &found)
}
