package doctor

import (
	"context"
	"errors"
	"fmt"

	"attestd/service"
	"attestd/store"
	"attestd/store/admin/backups"
	"attestd/store/sqlite"
)

// mostBackups bounds how many backups are looked at until one is found that is done.
const mostBackups = 256

func (x *examination) settings(ctx context.Context) *finding {
	if x.ConfigErr != nil {
		return failed("serve would refuse these flags and variables: "+x.ConfigErr.Error(), "correct it; see docs/configure.md")
	}
	f := ok("serve accepts these flags and variables")
	var other *store.RelyingPartyError
	// without --base-url it is not known whether a server has one
	if x.store != nil && x.Config.BaseURL != "" && errors.As(service.CheckRelyingParty(ctx, x.store, x.Config.BaseURL), &other) {
		f.add(Warn, other.Error(), "set --base-url to an address of that host, or move the name with the service")
	}
	return f
}

// overdue is the number of intervals without a backup from which on one is overdue, as /readyz has
// it.
const overdue = 2

func (x *examination) backups(ctx context.Context) *finding {
	switch {
	case x.path == "":
		return skipped("a PostgreSQL database is backed up with its own tools")
	case x.Backups != nil:
		return x.placeOfBackups(ctx)
	case x.server == nil || x.server.Backups == nil:
		return warned("no backups are known", "attestd help backup says how to make some; --backup-to names their place to the doctor")
	}
	return x.scheduled(ok())
}

// scheduled adds what the server says of the backups that it makes.
func (x *examination) scheduled(f *finding) *finding {
	b := x.server.Backups
	if b.Error != "" {
		f.add(Warn, fmt.Sprintf("the server says: %d attempts failed, the last with: %s", b.Failures, b.Error), remedies["BACKUP_OVERDUE"])
	}
	switch {
	case b.Overdue:
		f.add(Warn, "the server says: a backup is overdue", remedies["BACKUP_OVERDUE"])
	case b.Newest.IsZero():
		f.add(Warn, "the server says: no backup is done yet", "wait for the first one; the server's log says when it fails")
	default:
		f.note(fmt.Sprintf("the server says: the newest backup in %s was begun at %s", b.To, x.ago(b.Newest)))
	}
	return f
}

func (x *examination) placeOfBackups(ctx context.Context) *finding {
	if f := x.unread(); f != nil {
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, placeTimeout)
	defer cancel()
	place, err := x.Backups()
	if err == nil {
		err = place.Check(ctx)
	}
	if err != nil {
		return failed(err.Error(), "see docs/operate/backup.md, \"On a schedule\"")
	}
	id, err := x.store.DatabaseID(ctx)
	if err != nil {
		return failed(err.Error(), restoreBackup)
	}
	newest, wrong, err := backups.Latest(ctx, place, id, mostBackups)
	if err != nil {
		return failed(err.Error(), "look at the place of the backups")
	}
	f := ok()
	for i, l := range wrong {
		if i < mostNamed {
			f.add(Fail, l.Address+" is not what its manifest says: "+l.Err.Error(), "attestd backup list shows all; make a new backup")
		}
	}
	if !newest.Done() {
		return f.add(Fail, fmt.Sprintf("no backup of this database in %s is done", place), "attestd backup --backup-to makes one; serve --backup-to makes them on a schedule")
	}
	f.describe(x, newest)
	if x.Now.Sub(newest.Manifest.Began) > overdue*x.BackupEvery {
		f.add(Warn, fmt.Sprintf("the newest backup that is done, %s, was begun at %s, and one is due every %s", newest.Address,
			x.ago(newest.Manifest.Began), x.BackupEvery), "the server's log says why there is no newer one; --backup-every says when one is due")
	}
	if free, _, known := sqlite.FreeRoom(place.Room()); place.Room() != "" && known && free < newest.Manifest.Size {
		f.add(Warn, fmt.Sprintf("%s free in %s, too little for another backup (%s)", bytes(free), place, bytes(newest.Manifest.Size)),
			"make room, or keep fewer with --backup-keep")
	}
	if x.server != nil && x.server.Backups != nil && x.server.Backups.To == place.String() {
		x.scheduled(f)
	}
	return f
}

// describe says how the newest backup was verified.
func (f *finding) describe(x *examination, newest backups.Listed) {
	proof := "read back, restored and verified"
	if !newest.Manifest.WasOpened() {
		proof = "verified before it was encrypted, and read back"
	}
	f.note(fmt.Sprintf("%s was begun at %s and %s at %s, with %d records", newest.Address, x.ago(newest.Manifest.Began), proof,
		instant(newest.Manifest.Done), newest.Manifest.Records))
}

func (x *examination) tls(context.Context) *finding {
	const remedy = "put a new certificate in place; see docs/operate/tls-and-proxies.md, \"Serve TLS\""
	reported := x.server != nil && x.server.Certificate != nil
	if x.TLS == nil && !reported {
		return skipped("without --tls-cert and --acme-domain nothing speaks TLS here")
	}
	f := ok()
	if x.TLS != nil {
		status, err := x.TLS()
		if err != nil {
			return failed(err.Error(), remedy)
		}
		f.note("the certificate ends at " + instant(status.NotAfter))
		switch {
		case x.Now.After(status.NotAfter):
			f.add(Fail, "the certificate has ended at "+instant(status.NotAfter), remedy)
		case x.Now.Before(status.NotBefore):
			f.add(Fail, "the certificate is not valid before "+instant(status.NotBefore), remedy)
		case status.Ends(x.Now):
			f.add(Warn, "the certificate ends at "+instant(status.NotAfter), remedy)
		}
		if x.Host != "" {
			if err := status.IsFor(x.Host); err != nil {
				f.add(Fail, "the certificate is not for the host of --base-url: "+err.Error(), remedy)
			}
		}
	}
	if reported {
		c := x.server.Certificate
		switch {
		case c.Error != "":
			f.add(Warn, "the server says: "+c.Error, remedies["CERTIFICATE_ENDS"])
		case c.NotAfter.IsZero():
			f.add(Warn, "the server says: there is no certificate yet", remedies["CERTIFICATE_ENDS"])
		case c.Ends:
			f.add(Warn, "the server says: the certificate in use ends at "+instant(c.NotAfter), remedies["CERTIFICATE_ENDS"])
		default:
			f.note("the server says: the certificate in use ends at " + instant(c.NotAfter))
		}
	}
	return f
}

func (x *examination) listen(context.Context) *finding {
	var f *finding
	var exposed []string
	if x.server != nil {
		f, exposed = ok("the server says: it listens on "+x.server.Address), x.server.Exposed
	} else {
		address, err := x.address()
		if x.ConfigErr != nil || err != nil {
			return skipped("the settings are wrong")
		}
		f, exposed = ok("--listen is "+x.Listen), x.Config.Exposed(address)
	}
	for _, what := range exposed {
		f.add(Warn, what, "set the flag, or listen on loopback alone; see docs/operate/credentials-and-keys.md, \"Decide who may register\"")
	}
	return f
}

func (x *examination) limits(context.Context) *finding {
	who, have := "the server", x.Config.Needs()
	if x.server != nil {
		have = x.server.Limits
	} else {
		if x.ConfigErr != nil {
			return skipped("the settings are wrong")
		}
		who = "a server started as this command was"
	}
	f := ok(fmt.Sprintf("%s may have %d connections", who, have.Connections))
	if have.OpenFiles > 0 && have.Connections < have.WantConnections {
		f.add(Warn, fmt.Sprintf("%s may open %d files, so it has %d connections and not %d", who, have.OpenFiles, have.Connections, have.WantConnections),
			"raise the limit of open files (ulimit -n, LimitNOFILE=), or lower --max-connections")
	}
	if have.Memory > 0 && have.Memory < have.NeedMemory {
		f.add(Warn, fmt.Sprintf("%s needs up to %s of memory for requests, and there is %s", who, bytes(have.NeedMemory), bytes(have.Memory)),
			"lower --max-inflight, or give it more memory")
	}
	return f
}
