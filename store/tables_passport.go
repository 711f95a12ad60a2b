package store

import (
	"database/sql"

	"attestd/store/db"
)

// load reads a passport and checks it against the control log.
func (s Passports) load(r *db.Conn, company *Company, jti string) (p Passport, err error) {
	var latest, disabling sql.NullInt64
	p, err = db.Row(r, func(rows *sql.Rows) (Passport, error) { return passports.scanAnd(rows, &latest, &disabling) },
		"SELECT "+passports.list("p")+", latest, "+firstDisabling("company", "agent_id", "latest")+
			" FROM (SELECT *, "+passports.latest("passport")+" AS latest FROM passport WHERE jti = ? AND company = ?) AS p", jti, company.Chain)
	if err != nil {
		return Passport{}, err
	}
	l, err := controlRecord(r, company, latest)
	if err != nil {
		return Passport{}, s.db.noted(company, err)
	}
	disabled, err := controlRecord(r, company, disabling)
	if err != nil {
		return Passport{}, s.db.noted(company, err)
	}
	if err := s.db.checked(company, l.Passport(jti, passports.row(&p), disabled)); err != nil {
		return Passport{}, err
	}
	if err := p.parse(); err != nil {
		return Passport{}, err
	}
	return p, nil
}
