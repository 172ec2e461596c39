package postfixgate

import (
	"container/list"
	"errors"
	"sync"
	"time"
)

// Errors of arriving.
var (
	errMails      = errors.New("no more messages can be remembered at once")
	errRecipients = errors.New("as many recipients as a mail may have")
	errMemory     = errors.New("the recipients of all messages take too much memory")
	errDeciding   = errors.New("two questions about the same mail at once")
)

// bounds are those of the errors. The others are BoundUnseen.
var bounds = map[error]string{errMails: BoundMails, errRecipients: BoundRecipients, errMemory: BoundMemory}

// limits of arriving.
type limits struct {
	mails      int
	recipients int
	memory     int64
	age        time.Duration
}

// A message that Postfix is receiving. Its fields are guarded by arriving, except for those that deciding reads.
type message struct {
	instance   string
	recipients []string
	partial    bool      // not all recipients are here
	deciding   bool      // the spool is being asked
	decided    bool      // the spool need not be asked any more
	adrift     bool      // the connection with the last request about it has ended
	later      answer    // decided: the answer at the end of the message
	used       time.Time // the last request about it
	size       int64
	element    *list.Element // in arriving.order
}

// arriving are the messages that Postfix is receiving, by instance. It is safe for concurrent use.
type arriving struct {
	mu     sync.Mutex
	known  map[string]*message
	order  list.List // of *message, by the last request; the oldest first
	memory int64

	dropped func(bound string) // called for each message that a bound has pushed out
}

// The size of a message and of a recipient, without their texts.
const (
	messageSize   = 256
	recipientSize = 16
)

// get returns the message of an instance, or a new one. Under mu.
func (m *arriving) get(instance []byte, now time.Time, l *limits) (*message, error) {
	for first := m.order.Front(); first != nil; first = m.order.Front() {
		oldest := first.Value.(*message)
		if now.Sub(oldest.used) <= l.age || oldest.deciding {
			break
		}
		m.remove(oldest)
	}
	p := m.known[string(instance)]
	if p == nil {
		size := int64(messageSize + 2*len(instance))
		for len(m.known) >= l.mails && m.dropAdrift(nil, BoundMails) {
		}
		for m.memory+size > l.memory && m.dropAdrift(nil, BoundMemory) {
		}
		switch {
		case len(m.known) >= l.mails:
			return nil, errMails
		case m.memory+size > l.memory:
			return nil, errMemory
		}
		p = &message{instance: string(instance), size: size}
		if m.known == nil {
			m.known = map[string]*message{}
		}
		m.known[p.instance] = p
		m.memory += size
		p.element = m.order.PushBack(p)
	}
	p.used, p.adrift = now, false
	m.order.MoveToBack(p.element)
	return p, nil
}

// dropAdrift makes room at a bound: it forgets the oldest message whose connection has ended, other than keep, and
// reports whether there was one. Most of these are abandoned. A server that opens a connection for each question, as
// Exim does, may still come back to one: then not all of its recipients are known. Under mu.
func (m *arriving) dropAdrift(keep *message, bound string) bool {
	for e := m.order.Front(); e != nil; e = e.Next() {
		if p := e.Value.(*message); p.adrift && !p.deciding && p != keep {
			m.remove(p)
			m.dropped(bound)
			return true
		}
	}
	return false
}

// leave notes that the connection with the last request about a message has ended.
func (m *arriving) leave(instance []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.known[string(instance)]; p != nil {
		p.adrift = true
	}
}

func (m *arriving) remove(p *message) {
	m.order.Remove(p.element)
	delete(m.known, p.instance)
	m.memory -= p.size
}

// asked reports whether a recipient is the last one of a message: Postfix may be configured to ask twice.
func (m *arriving) asked(instance, recipient []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.known[string(instance)]
	return p != nil && len(p.recipients) > 0 && p.recipients[len(p.recipients)-1] == string(recipient)
}

// add gives a message one more recipient. After an error not all of its recipients are known.
func (m *arriving) add(instance, recipient []byte, now time.Time, l *limits) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.get(instance, now, l)
	if err != nil {
		return err
	}
	size := int64(recipientSize + len(recipient))
	for m.memory+size > l.memory && m.dropAdrift(p, BoundMemory) {
	}
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

// decide returns the message of an instance to be decided about. settle must be called for it. If it was decided
// before, decide returns nil and the answer, and forgets the message at its end.
func (m *arriving) decide(instance []byte, end bool, now time.Time, l *limits) (*message, answer, error) {
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

// settle ends what decide began. It forgets the message, or remembers the answer at its end.
func (m *arriving) settle(p *message, forget bool, later answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.deciding = false
	if forget {
		m.remove(p)
		return
	}
	p.decided, p.later = true, later
	m.memory -= p.size - messageSize
	p.recipients, p.size = nil, messageSize
}

// forget ends a message, if it is still there. It returns the answer that it would have had at its end.
func (m *arriving) forget(instance []byte) (later answer, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.known[string(instance)]
	if p == nil || p.deciding {
		return answer{}, false
	}
	m.remove(p)
	return p.later, p.decided
}
