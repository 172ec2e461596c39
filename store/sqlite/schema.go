package sqlite

import (
	"cmp"
	"fmt"

	"weir/store"
)

// applicationID marks the file as one of weir: "weir" in ASCII.
const applicationID = 0x77656972

// migrations bring a file up to date, one version each: the first makes version 1 of an empty file. A released one is
// never changed; new ones are appended. There is no way back.
var migrations = []string{
	`CREATE TABLE bans (
		client   TEXT    NOT NULL, -- the id of a client, or empty
		network  TEXT    NOT NULL, -- a network, or empty
		lifted   INTEGER NOT NULL, -- 1: it is not banned since then, which is remembered for farms
		reason   TEXT    NOT NULL,
		by       TEXT    NOT NULL,
		operator INTEGER NOT NULL, -- 1: an operator did it
		since    INTEGER,          -- nanoseconds since the epoch
		until    INTEGER,          -- nanoseconds since the epoch; null: for good
		PRIMARY KEY (client, network, lifted)
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
	CREATE INDEX counters_until ON counters (until);

	-- Mail. What most messages go through (ready, sending, gone) touches as few indexes as possible: the partial ones are
	-- for those that wait.
	CREATE TABLE users (
		name     TEXT    NOT NULL PRIMARY KEY,
		password TEXT    NOT NULL, -- hashed; empty: he cannot log in
		contact  TEXT    NOT NULL,
		senders  TEXT    NOT NULL, -- one in a line; empty: any
		limits   TEXT    NOT NULL,
		disabled INTEGER NOT NULL,
		made     INTEGER NOT NULL, -- nanoseconds since the epoch, as all times; 0: unknown
		changed  INTEGER NOT NULL,
		language TEXT    NOT NULL  -- empty: the usual one
	) STRICT, WITHOUT ROWID;

	CREATE TABLE memories (
		user     TEXT    NOT NULL,
		throttle TEXT    NOT NULL,
		state    BLOB    NOT NULL, -- as the mechanism writes it
		due      INTEGER,          -- null: never
		stopped  INTEGER NOT NULL,
		PRIMARY KEY (user, throttle)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX memories_due ON memories (due) WHERE due IS NOT NULL;
	CREATE INDEX memories_stopped ON memories (throttle, user) WHERE stopped = 1;

	CREATE TABLE messages (
		id       INTEGER NOT NULL PRIMARY KEY,
		gate     TEXT    NOT NULL,
		user     TEXT    NOT NULL,
		sender   TEXT    NOT NULL,
		subject  TEXT    NOT NULL,
		source   TEXT    NOT NULL, -- an address, or empty
		received INTEGER NOT NULL,
		size     INTEGER NOT NULL, -- of the text
		flags    INTEGER NOT NULL, -- 1 SMTPUTF8, 2 8BITMIME, 4 written by weir, 8 RET=FULL, 16 RET=HDRS
		envelope TEXT    NOT NULL,
		file     TEXT,             -- the name of the file that has the text, or null
		text     BLOB              -- the text where no file has it, and its sum
	) STRICT;
	CREATE INDEX messages_user ON messages (user);
	CREATE UNIQUE INDEX messages_file ON messages (file) WHERE file IS NOT NULL;

	CREATE TABLE addressees (
		mail     INTEGER NOT NULL,
		number   INTEGER NOT NULL, -- in the envelope
		address  TEXT    NOT NULL,
		notify   TEXT    NOT NULL,
		original TEXT    NOT NULL,
		state    INTEGER NOT NULL, -- 1 ready, 2 sending, 3 delayed, 4 held, 5 pooled
		due      INTEGER NOT NULL, -- 0: at once
		since    INTEGER NOT NULL, -- 0: never yet
		attempt  INTEGER NOT NULL,
		owner    TEXT    NOT NULL,
		status   TEXT    NOT NULL,
		warned   INTEGER NOT NULL,
		PRIMARY KEY (mail, number)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX addressees_due ON addressees (due, state) WHERE state <= 2;
	CREATE INDEX addressees_waiting ON addressees (state, mail) WHERE state > 2;
	CREATE INDEX addressees_pooled ON addressees (due) WHERE state = 5;

	CREATE TABLE tickets (
		nonce    TEXT    NOT NULL PRIMARY KEY,
		user     TEXT    NOT NULL,
		throttle TEXT    NOT NULL,
		gate     TEXT    NOT NULL,
		messages TEXT    NOT NULL, -- ids as text, separated by spaces
		until    INTEGER NOT NULL,
		used     INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE INDEX tickets_until ON tickets (until);

	CREATE TABLE entries (
		id   INTEGER PRIMARY KEY AUTOINCREMENT, -- none is given twice
		at   INTEGER NOT NULL,
		by   TEXT    NOT NULL,
		what TEXT    NOT NULL,
		user TEXT    NOT NULL,
		mail INTEGER NOT NULL, -- 0: none
		text TEXT    NOT NULL
	) STRICT;
	CREATE INDEX entries_at ON entries (at);

	-- Tickets end with their user, and with the address that they were sent to.
	CREATE INDEX tickets_user ON tickets (user);

	-- Reach. Most sketches are short, and are written with each mail. A known part is long and seldom written, so it is
	-- in a table of its own, with numbered rows, which hold long values better. Addressees have one more state, 6
	-- withheld: it waits like the others beyond 2.
	CREATE TABLE sketches (
		user     TEXT    NOT NULL, -- empty: all users of the throttle together
		throttle TEXT    NOT NULL,
		state    BLOB    NOT NULL, -- as the mechanism writes it
		flagged  INTEGER NOT NULL,
		PRIMARY KEY (user, throttle)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX sketches_flagged ON sketches (throttle, user) WHERE flagged = 1;

	CREATE TABLE known (
		user     TEXT    NOT NULL,
		throttle TEXT    NOT NULL,
		data     BLOB    NOT NULL, -- as the mechanism writes it
		PRIMARY KEY (user, throttle)
	) STRICT;

	-- Stamps of mail that are spent. Counting them would read them all, so their number is written down.
	CREATE TABLE stamps (
		nonce    BLOB    NOT NULL PRIMARY KEY,
		until    INTEGER NOT NULL  -- from when on nobody takes it any more
	) STRICT, WITHOUT ROWID;
	CREATE INDEX stamps_until ON stamps (until);
	CREATE TABLE stamps_kept (n INTEGER NOT NULL) STRICT;
	INSERT INTO stamps_kept (n) VALUES (0);

	-- Who may use the console, and more about entries of the audit log. No two tables have columns of the same kinds:
	-- where the list of tables is lost, rows are told apart by what is in them.
	CREATE TABLE operators (
		name     TEXT    NOT NULL PRIMARY KEY,
		role     TEXT    NOT NULL,
		password TEXT    NOT NULL, -- hashed; empty: no log-in
		made     INTEGER NOT NULL, -- nanoseconds since the epoch, as all times
		changed  INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;

	CREATE TABLE sessions (
		sum      BLOB    NOT NULL PRIMARY KEY, -- SHA-256 of the secret
		operator TEXT    NOT NULL,
		source   TEXT    NOT NULL,
		made     INTEGER NOT NULL,
		seen     INTEGER NOT NULL,
		until    INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE INDEX sessions_operator ON sessions (operator, seen);
	CREATE INDEX sessions_until ON sessions (until);
	CREATE INDEX sessions_seen ON sessions (seen);

	CREATE TABLE tokens (
		sum      BLOB    NOT NULL PRIMARY KEY, -- SHA-256 of the secret
		name     TEXT    NOT NULL,
		role     TEXT    NOT NULL,
		operator TEXT    NOT NULL, -- with whom it ends; empty: none
		by       TEXT    NOT NULL,
		made     INTEGER NOT NULL,
		until    INTEGER NOT NULL, -- 0: never
		used     INTEGER NOT NULL  -- 0: never
	) STRICT, WITHOUT ROWID;
	CREATE UNIQUE INDEX tokens_name ON tokens (name);
	CREATE INDEX tokens_operator ON tokens (operator);

	CREATE TABLE acts (
		entry  INTEGER NOT NULL PRIMARY KEY, -- of entries
		source TEXT    NOT NULL,
		before TEXT    NOT NULL, -- JSON, or empty
		after  TEXT    NOT NULL  -- JSON, or empty
	) STRICT;

	-- What operators have set on a running weir.
	CREATE TABLE settings (
		kind     TEXT    NOT NULL,
		name     TEXT    NOT NULL,
		at       INTEGER NOT NULL, -- when it was set, in nanoseconds since the epoch
		until    INTEGER,          -- until when it holds, in nanoseconds since the epoch; null: until it is removed
		value    TEXT    NOT NULL, -- empty: it was removed
		by       TEXT    NOT NULL,
		PRIMARY KEY (kind, name)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX settings_until ON settings (until) WHERE until IS NOT NULL;

	-- Networks from which people have logged in. Counting them would read them all, so their number is written down.
	CREATE TABLE logins (
		console INTEGER NOT NULL, -- 1: an operator; 0: a mail user
		name    TEXT    NOT NULL,
		network TEXT    NOT NULL,
		since   INTEGER NOT NULL,
		at      INTEGER NOT NULL,
		PRIMARY KEY (console, name, network)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX logins_at ON logins (at);
	CREATE TABLE logins_kept (n INTEGER NOT NULL) STRICT;
	INSERT INTO logins_kept (n) VALUES (0);
	CREATE TRIGGER logins_put AFTER INSERT ON logins BEGIN UPDATE logins_kept SET n = n + 1; END;
	CREATE TRIGGER logins_gone AFTER DELETE ON logins BEGIN UPDATE logins_kept SET n = n - 1; END;

	-- What this node may have been granted of limits that an engine counts.
	CREATE TABLE ceilings (
		throttle TEXT    NOT NULL,
		rule     TEXT    NOT NULL,
		account  TEXT    NOT NULL, -- empty where there is none
		source   TEXT    NOT NULL, -- an address where there is no account
		run      TEXT    NOT NULL, -- by which the engine knows who was granted it
		state    BLOB    NOT NULL, -- what the engine said of the limit, as it writes it
		slice    INTEGER NOT NULL, -- of the window
		used     INTEGER NOT NULL, -- at most
		seq      INTEGER NOT NULL, -- of the run's last call
		accepted INTEGER NOT NULL, -- 1: the upstream has accepted the account
		until    INTEGER NOT NULL, -- from when on it no longer counts, in nanoseconds since the epoch
		PRIMARY KEY (throttle, rule, account, source)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX ceilings_until ON ceilings (until);`,
}

// version returns the version of the tables, up to a known one. A new file has version 0.
func (s *session) version(known int) (int, error) {
	id, err := s.first("PRAGMA application_id")
	version, err2 := s.first("PRAGMA user_version")
	tables, err3 := s.first("SELECT count(*) FROM sqlite_schema")
	if err := cmp.Or(err, err2, err3); err != nil {
		return 0, err
	}
	switch n := int(version.(int64)); {
	case id == int64(0) && n == 0 && tables == int64(0):
		return 0, nil
	case id != int64(applicationID):
		return 0, errForeign
	case n > known:
		return n, fmt.Errorf("%w: it has version %d, this weir knows up to %d", store.ErrNewer, n, known)
	default:
		return n, nil
	}
}

var errForeign = fmt.Errorf("a database of another program: %w", store.ErrCorrupt)

// migrate brings the file up to date, each version in a transaction: a failure leaves the last good one.
func (s *session) migrate(steps []string) error {
	version, err := s.version(len(steps))
	for ; err == nil && version < len(steps); version++ {
		for _, query := range []string{"BEGIN", steps[version],
			fmt.Sprintf("PRAGMA application_id = %d", applicationID),
			fmt.Sprintf("PRAGMA user_version = %d", version+1), "COMMIT"} {
			if err := s.exec(query); err != nil {
				_ = s.exec("ROLLBACK")
				return fmt.Errorf("to version %d: %w", version+1, err)
			}
		}
	}
	return err
}
