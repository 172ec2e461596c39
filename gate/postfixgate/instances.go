package postfixgate

import (
	"errors"
	"sync"
	"time"
)

// Errors of mails.
var (
	errMails      = errors.New("as many mails as can be remembered at a time")
	errRecipients = errors.New("as many recipients as a mail may have")
	errMemory     = errors.New("as much as the recipients of all mails may take")
	errDeciding   = errors.New("two questions about the same mail at once")
)

// boundOf names the bound that an error of mails is about.
func boundOf(err error) string {
	switch err {
	case errMails:
		return BoundMails
	case errRecipients:
		return BoundRecipients
	case errMemory:
		return BoundMemory
	}
	return BoundUnseen
}

// limits of mails.
type limits struct {
	mails      int
	recipients int
	memory     int64
	age        time.Duration
}

// A letter is a mail that Postfix is receiving. What is in it belongs to its mails.
type letter struct {
	instance   string
	recipients []string
	partial    bool      // not all recipients are here
	deciding   bool      // somebody asks the spool
	decided    bool      // nobody has to ask any more
	later      answer    // decided: what is answered at the end of the mail
	used       time.Time // the last time that it was spoken of
	size       int64
	older      *letter // in the order in which they were spoken of
	newer      *letter
}

// mails are the mails that Postfix is receiving, by instance. It is safe for concurrent use.
type mails struct {
	mu     sync.Mutex
	known  map[string]*letter
	oldest *letter
	newest *letter
	memory int64
}

// What a mail and a recipient take beside their texts.
const (
	letterSize    = 256
	recipientSize = 16
)

// get returns the mail of an instance, or a new one. Under mu.
func (m *mails) get(instance []byte, now time.Time, l *limits) (*letter, error) {
	for m.oldest != nil && now.Sub(m.oldest.used) > l.age && !m.oldest.deciding {
		m.remove(m.oldest)
	}
	if p := m.known[string(instance)]; p != nil {
		m.unlink(p)
		m.link(p, now)
		return p, nil
	}
	size := int64(letterSize + 2*len(instance))
	switch {
	case len(m.known) >= l.mails:
		return nil, errMails
	case m.memory+size > l.memory:
		return nil, errMemory
	}
	p := &letter{instance: string(instance), size: size}
	if m.known == nil {
		m.known = map[string]*letter{}
	}
	m.known[p.instance] = p
	m.memory += size
	m.link(p, now)
	return p, nil
}

func (m *mails) link(p *letter, now time.Time) {
	p.used = now
	if p.older = m.newest; p.older != nil {
		p.older.newer = p
	} else {
		m.oldest = p
	}
	m.newest = p
}

func (m *mails) unlink(p *letter) {
	if p.older != nil {
		p.older.newer = p.newer
	} else {
		m.oldest = p.newer
	}
	if p.newer != nil {
		p.newer.older = p.older
	} else {
		m.newest = p.older
	}
	p.older, p.newer = nil, nil
}

func (m *mails) remove(p *letter) {
	m.unlink(p)
	delete(m.known, p.instance)
	m.memory -= p.size
}

// asked reports whether a recipient is the last one that a mail was given: Postfix may be told to ask twice.
func (m *mails) asked(instance, recipient []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.known[string(instance)]
	return p != nil && len(p.recipients) > 0 && p.recipients[len(p.recipients)-1] == string(recipient)
}

// add gives a mail one more recipient. After an error not all of its recipients are known.
func (m *mails) add(instance, recipient []byte, now time.Time, l *limits) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.get(instance, now, l)
	if err != nil {
		return err
	}
	size := int64(recipientSize + len(recipient))
	switch {
	case len(p.recipients) >= l.recipients:
		err = errRecipients
	case m.memory+size > l.memory:
		err = errMemory
	default:
		p.recipients = append(p.recipients, string(recipient))
		p.size += size
		m.memory += size
		return nil
	}
	p.partial = true
	return err
}

// decide returns the mail of an instance to be decided about; settle must be called for it. Where that was done before,
// it returns nil and what is answered now; at its end the mail is forgotten.
func (m *mails) decide(instance []byte, end bool, now time.Time, l *limits) (*letter, answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.get(instance, now, l)
	switch {
	case err != nil:
		return nil, answer{}, err
	case p.deciding:
		return nil, answer{}, errDeciding
	case p.decided && end:
		m.remove(p)
		return nil, p.later, nil
	case p.decided:
		return nil, dunno, nil // asked twice
	}
	p.deciding = true
	return p, answer{}, nil
}

// settle ends what decide began. Where no more is asked about the mail, it is forgotten; else later is what will be
// answered at its end.
func (m *mails) settle(p *letter, over bool, later answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.deciding = false
	if over {
		m.remove(p)
		return
	}
	p.decided, p.later = true, later
	m.memory -= p.size - letterSize
	p.recipients, p.size = nil, letterSize
}

// forget ends a mail that was spoken of, if it is still there. It returns what would have been answered at its end.
func (m *mails) forget(instance []byte) (later answer, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.known[string(instance)]
	if p == nil || p.deciding {
		return answer{}, false
	}
	m.remove(p)
	return p.later, p.decided
}
