package postgres

import (
	"fmt"
	"strings"
)

const protocolOnly = "it speaks the protocol of PostgreSQL, but not all of its locks, triggers and isolation, on which the chains rest"

// unlike returns the engines that part of the text of version() identifies. None of them is tested;
// the known reasons are given.
func unlike() []struct{ mark, engine, reason string } {
	return []struct{ mark, engine, reason string }{
		{"CockroachDB", "CockroachDB", "its transactions are serializable and distributed, and its triggers, advisory locks and snapshots are not those of PostgreSQL"},
		{"-YB-", "YugabyteDB", "its snapshots and row locks are not those of PostgreSQL, and it has no transaction numbers that grow"},
		{"Redshift", "Amazon Redshift", "it has no triggers, no row locks and no unique keys that it enforces"},
		{"Materialize", "Materialize", protocolOnly},
		{"RisingWave", "RisingWave", protocolOnly},
		{"CrateDB", "CrateDB", "it has no transactions"},
		{"QuestDB", "QuestDB", protocolOnly},
		{"Greenplum", "Greenplum", "it spreads tables over segments, where triggers and unique keys are limited"},
		{"Cloudberry", "Cloudberry", "it spreads tables over segments, where triggers and unique keys are limited"},
		{"openGauss", "openGauss", protocolOnly},
		{"GaussDB", "GaussDB", protocolOnly},
	}
}

// checkEngine refuses engines other than PostgreSQL by the text of version(). Every PostgreSQL
// includes the compiler in it.
func checkEngine(version string) error {
	for _, u := range unlike() {
		if strings.Contains(version, u.mark) {
			return fmt.Errorf("%w: the database is %s: %s", ErrRefused, u.engine, u.reason)
		}
	}
	if !strings.HasPrefix(version, "PostgreSQL ") || !strings.Contains(version, "compiled by") {
		return fmt.Errorf("%w: the database calls itself %q, which is not PostgreSQL (Aurora DSQL and Spanner do so, for example): %s", ErrRefused, version, protocolOnly)
	}
	return nil
}

// checkAddition refuses extensions that change how PostgreSQL behaves, and the access method that
// identifies Aurora DSQL.
func checkAddition(kind, name string) error {
	switch kind + " " + name {
	case "extension citus":
		return fmt.Errorf("%w: the extension citus spreads tables over servers, which has not been tested", ErrRefused)
	case "extension bdr", "extension pgactive", "extension spock":
		return fmt.Errorf("%w: the %s %s lets several servers take writes at once, so that a chain could go on in two ways", ErrRefused, kind, name)
	case "access method btree_index":
		return fmt.Errorf("%w: the database is Aurora DSQL: it has no triggers, foreign keys or row locks", ErrRefused)
	}
	return nil
}
