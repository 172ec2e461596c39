package sqlite

import (
	"fmt"

	"weir/store"
)

const sketchColumns = `user, throttle, state, flagged`

func (t *tx) Sketch(throttle, user string) (store.Sketch, error) {
	return one(t, errNoSketch, func(r row) (store.Sketch, error) {
		k := store.Sketch{Throttle: throttle, User: user, State: r.bytes(0), Flagged: r.bool(1)}
		return k, corrupt(k.Validate())
	}, `SELECT state, flagged FROM sketches WHERE user = ? AND throttle = ?`, user, throttle)
}

// They are made once: most lookups of new users return errNoSketch, and of users who write to few errNoKnown.
var (
	errNoSketch = fmt.Errorf("what a throttle knows of a user: %w", store.ErrNotFound)
	errNoKnown  = fmt.Errorf("the known part of a sketch: %w", store.ErrNotFound)
)

func (t *tx) Known(throttle, user string) ([]byte, error) {
	return one(t, errNoKnown, func(r row) ([]byte, error) {
		known := r.bytes(0)
		return known, corrupt(store.CheckKnown(throttle, user, known))
	}, `SELECT data FROM known WHERE user = ? AND throttle = ?`, user, throttle)
}

func (t *tx) PutSketch(k store.Sketch) error {
	if err := t.writes(k.Validate()); err != nil {
		return err
	}
	if len(k.State) == 0 {
		return t.removeSketch(k.Throttle, k.User)
	}
	t.session.weigh(len(k.State))
	_, err := t.run(`INSERT INTO sketches (`+sketchColumns+
		`) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET state = excluded.state, flagged = excluded.flagged`,
		k.User, k.Throttle, k.State, k.Flagged)
	return err
}

// removeSketch takes a sketch away, with its known part.
func (t *tx) removeSketch(throttle, user string) error {
	for _, query := range [...]string{`DELETE FROM known WHERE user = ? AND throttle = ?`,
		`DELETE FROM sketches WHERE user = ? AND throttle = ?`} {
		if _, err := t.run(query, user, throttle); err != nil {
			return t.spoil(err)
		}
	}
	return nil
}

func (t *tx) PutKnown(throttle, user string, known []byte) error {
	if err := t.writes(store.CheckKnown(throttle, user, known)); err != nil {
		return err
	}
	if len(known) == 0 {
		_, err := t.run(`DELETE FROM known WHERE user = ? AND throttle = ?`, user, throttle)
		return err
	}
	t.session.weigh(len(known))
	n, err := t.run(`INSERT INTO known (throttle, user, data) SELECT throttle, user, ? FROM sketches
		WHERE user = ? AND throttle = ? ON CONFLICT DO UPDATE SET data = excluded.data`, known, user, throttle)
	if err == nil && n == 0 {
		err = errNoSketch
	}
	return err
}

func (t *tx) Flagged(afterThrottle, afterUser string, limit int) ([]store.Sketch, error) {
	return list(t, limit, readSketch, `SELECT `+sketchColumns+
		` FROM sketches WHERE flagged = 1 AND (throttle, user) > (?, ?) ORDER BY throttle, user LIMIT ?`,
		afterThrottle, afterUser)
}

func readSketch(r row) (store.Sketch, error) {
	k := store.Sketch{User: r.text(0), Throttle: r.text(1), State: r.bytes(2), Flagged: r.bool(3)}
	return k, corrupt(k.Validate())
}
