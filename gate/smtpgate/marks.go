package smtpgate

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"weir/identify"
	"weir/store"
)

// marked reports whether the user of a message is known by a mark alone: another server, where the user logged in, has
// diverted it.
func (s *session) marked(tx *transaction) bool {
	return s.setup.opts.Marks && tx.who.name != "" && !tx.who.authenticated
}

// readMark returns the mark in the first field, and the header without marks. The user may have written those further
// down.
func readMark(text []byte) (mark string, rest []byte) {
	rest = make([]byte, 0, len(text))
	for at := 0; at < len(text); {
		end := fieldEnd(text, at)
		field := text[at:end]
		if !fold(fieldName(field), strings.ToLower(identify.MarkHeader)) {
			rest = append(rest, field...)
		} else if at == 0 {
			_, value, _ := bytes.Cut(field, []byte(":"))
			mark = string(bytes.TrimSpace(value))
		}
		at = end
	}
	return mark, rest
}

// recognize reads from the mark who sends the message. Without a valid mark the answer is temporary, and the other
// server keeps the message.
func (d *delivery) recognize(text []byte) ([]byte, *no) {
	mark, rest := readMark(text)
	if mark == "" {
		return nil, refuse(MailStranger, 451, 471, "there is no mark that tells whose mail this is")
	}
	name, _, err := identify.ReadMark(mark, d.now(), d.gate.env.Marks()...)
	if err != nil {
		return nil, &no{how: MailStranger, reply: reply(451, 471, "the mark does not tell whose mail this is"),
			cause: err}
	}
	env := &d.gate.env
	user, err := env.Spool.User(context.WithoutCancel(d.gate.Base), name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		user = store.User{Name: name}
	case err != nil:
		return nil, &no{how: MailFailed, reply: reply(451, 430, "the user cannot be looked up, try again later"),
			cause: err}
	}
	d.tx.who = identity{name: name, user: user, asked: d.now()}
	for i := range d.tx.to {
		r := &d.tx.to[i]
		r.free = env.Spool.Free(env.Name, &d.tx.who.user, r.normal)
	}
	return rest, nil
}
