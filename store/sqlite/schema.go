package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"weir/store"
)

// applicationID marks the file as one of weir: "weir" in ASCII.
const applicationID = 0x77656972

// migrations bring a file up to date, one version each: the first makes version 1 of an empty file. What has been released is never
// changed; what comes later is appended. There is no way back.
var migrations = []string{
	`CREATE TABLE bans (
		client   TEXT    NOT NULL, -- the id of a client, or empty
		network  TEXT    NOT NULL, -- a network, or empty
		reason   TEXT    NOT NULL,
		by       TEXT    NOT NULL,
		operator INTEGER NOT NULL, -- 1: an operator did it
		since    INTEGER,          -- nanoseconds since the epoch
		until    INTEGER,          -- nanoseconds since the epoch; null: for good
		PRIMARY KEY (client, network)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX bans_until ON bans (until) WHERE until IS NOT NULL;

	CREATE TABLE counters (
		throttle TEXT    NOT NULL,
		rule     TEXT    NOT NULL,
		account  TEXT    NOT NULL, -- empty where there is none
		source   TEXT    NOT NULL, -- an address where there is no account
		period   INTEGER NOT NULL, -- when it starts, in nanoseconds since the epoch
		used     INTEGER NOT NULL,
		at       INTEGER,          -- as of when, in nanoseconds since the epoch; null where that does not matter
		until    INTEGER NOT NULL, -- from when on it no longer counts, in nanoseconds since the epoch
		PRIMARY KEY (throttle, rule, account, source, period)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX counters_until ON counters (until);`,
}

// migrate brings the file up to date, each version in a transaction of its own, so that a failure leaves the last good one.
func migrate(ctx context.Context, conn *sql.Conn, steps []string) error {
	var id, version, tables int
	for pragma, into := range map[string]*int{"PRAGMA application_id": &id, "PRAGMA user_version": &version, "SELECT count(*) FROM sqlite_schema": &tables} {
		if err := conn.QueryRowContext(ctx, pragma).Scan(into); err != nil {
			return err
		}
	}
	switch {
	case id == 0 && version == 0 && tables == 0: // a new file
	case id != applicationID:
		return fmt.Errorf("a database of another program: %w", store.ErrCorrupt)
	case version > len(steps):
		return fmt.Errorf("%w: it has version %d, this weir knows up to %d", store.ErrNewer, version, len(steps))
	}
	for ; version < len(steps); version++ {
		if err := step(ctx, conn, steps[version], version+1); err != nil {
			return fmt.Errorf("to version %d: %w", version+1, err)
		}
	}
	return nil
}

// step makes one version.
func step(ctx context.Context, conn *sql.Conn, ddl string, version int) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, text := range []string{ddl, fmt.Sprintf("PRAGMA application_id = %d", applicationID), fmt.Sprintf("PRAGMA user_version = %d", version)} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return tx.Commit()
}
