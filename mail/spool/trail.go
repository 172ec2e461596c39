package spool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/logs"
	"weir/mail/nexthop"
	"weir/store"
)

// MaxTrail is how many steps are remembered, in about 5 MB of memory, and about as much in the file of Options.Trail.
// What happened longer ago is in the log.
const MaxTrail = 10_000

// A MailStep is what became of a message, or of one of its recipients, as it is in the log.
type MailStep struct {
	At      time.Time    `json:"at"`
	Mail    store.MailID `json:"mail"`
	ID      string       `json:"message_id,omitempty"`
	User    string       `json:"user,omitempty"`
	Address string       `json:"address,omitempty"` // of the recipient; empty if the step is of several
	// accepted, held, released, deleted, expired, delivered, deferred, failed or ambiguous
	Result string `json:"result"`
	Status string `json:"status,omitempty"` // what the next server said, or how many recipients it is about
	Hop    string `json:"hop,omitempty"`    // the next server
	// the id that another server gave the message: the next one or, for accepted, the one before
	Queue string `json:"queue,omitempty"`
}

// A trail has the last steps, in memory and in a file for the next run. A file with MaxTrail lines is renamed to the
// old one, so that both together have twice as many at most. The file is not synced: weir does not need it, and a crash
// may cost the last steps.
type trail struct {
	mu    sync.Mutex
	ring  []MailStep
	next  int                     // where the oldest is, once it is full
	ids   map[store.MailID]string // the Message-ID of each message whose first step is in the ring
	path  string                  // of the file; empty for none
	lines int                     // in the file
	lost  logs.Line               // that steps could not be written
}

// oldSuffix is added to the name of the file before.
const oldSuffix = ".old"

// openTrail reads what the last run has noted.
func (d *delivery) openTrail() {
	t := &d.trail
	if t.path = d.opts.Trail; t.path == "" {
		return
	}
	for _, path := range []string{t.path + oldSuffix, t.path} {
		b, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.log.Warn("the last steps of messages cannot be read", "file", path, "error", err)
		}
		t.lines = 0
		for line := range bytes.Lines(b) {
			var s MailStep
			if json.Unmarshal(line, &s) == nil && s.Mail != 0 { // the last line may be cut off
				t.add(s)
			}
			t.lines++
		}
	}
}

// add remembers a step.
func (t *trail) add(s MailStep) {
	if t.ids == nil {
		t.ids = map[store.MailID]string{}
	}
	if s.ID != "" {
		t.ids[s.Mail] = s.ID
	}
	if len(t.ring) < MaxTrail {
		t.ring = append(t.ring, s)
		return
	}
	if gone := &t.ring[t.next]; gone.Result == stepAccepted {
		delete(t.ids, gone.Mail)
	}
	t.ring[t.next] = s
	t.next = (t.next + 1) % MaxTrail
}

// stepAccepted is the first step of every message. It brings the Message-ID, which the later ones get from trail.ids.
const stepAccepted = "accepted"

// note logs steps, remembers them and writes them to the file. If the operator wants only the domains of recipients in
// log and file, the whole addresses are in memory alone.
func (d *delivery) note(steps ...MailStep) {
	t := &d.trail
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines bytes.Buffer
	write := json.NewEncoder(&lines)
	for _, s := range steps {
		if s.ID == "" {
			s.ID = t.ids[s.Mail]
		}
		t.add(s)
		if d.opts.Domains != nil && d.opts.Domains() {
			s.Address = s.Address[max(strings.LastIndexByte(s.Address, '@'), 0):]
		}
		if s.Result != stepAccepted { // the gate logs that, and more about it
			s.log(d.log)
		}
		_ = write.Encode(s) // never fails
	}
	if err := t.write(lines.Bytes(), len(steps)); err != nil {
		d.complain(&t.lost, "the last steps of messages cannot be written: after a restart weir queue track will not know "+
			"them", "file", t.path, "error", err)
	}
}

func (t *trail) write(b []byte, lines int) (err error) {
	if t.path == "" || len(b) == 0 {
		return nil
	}
	if t.lines >= MaxTrail {
		err, t.lines = os.Rename(t.path, t.path+oldSuffix), 0
	}
	t.lines += lines
	file, err2 := os.OpenFile(t.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err2 != nil {
		return errors.Join(err, err2)
	}
	_, err2 = file.Write(b)
	return errors.Join(err, err2, file.Close())
}

func (s *MailStep) log(log *slog.Logger) {
	attrs := []slog.Attr{slog.String("mail", s.Mail.String())}
	for _, a := range [][2]string{{"message_id", s.ID}, {"user", s.User}, {"to", s.Address}, {"result", s.Result},
		{"hop", s.Hop}, {"queue_id", s.Queue}, {"reply", s.Status}} {
		if a[1] != "" {
			attrs = append(attrs, slog.String(a[0], a[1]))
		}
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, "mail", attrs...)
}

var stepResults = map[nexthop.Outcome]string{nexthop.Done: "delivered", nexthop.Failed: "failed",
	nexthop.Ambiguous: "ambiguous"}

// queueForm finds the id that a server has given a message, as Postfix and weir, Exim, and Sendmail say it.
var queueForm = regexp.MustCompile(`(?:queued as |\bid=)([0-9A-Za-z-]{6,32})\b|^([0-9A-Za-z]{12,20}) `)

func queueID(text string) string {
	if m := queueForm.FindStringSubmatch(text); m != nil {
		return m[1] + m[2]
	}
	return ""
}

// decided is a step that n recipients of a message take together.
func decided(now time.Time, id store.MailID, user, what string, n int) MailStep {
	return MailStep{At: now, Mail: id, User: user, Result: what, Status: recipientsText(n)}
}

// ends are the steps of the recipients of a delivery that is over.
func (j *job) ends(now time.Time) []MailStep {
	steps := make([]MailStep, len(j.to))
	for i := range j.to {
		r := &j.results[i]
		s := MailStep{At: now, Mail: j.message.ID, User: j.message.User, Address: j.to[i].Address, Status: status(r),
			Hop: r.Server, Result: cmp.Or(stepResults[r.Outcome], "deferred")}
		if r.Outcome == nexthop.Done {
			s.Queue = queueID(r.Text)
		}
		steps[i] = s
	}
	return steps
}

// Trail returns up to limit of the steps that are remembered, the latest first. They are those of the message with an
// id, those of recipients with a text in their address, and those of messages whose Message-ID, or id at another
// server, is the text.
func (d *delivery) Trail(id store.MailID, text string, limit int) (found []MailStep) {
	low := strings.ToLower(text)
	name := strings.Trim(text, "<>")
	t := &d.trail
	t.mu.Lock()
	defer t.mu.Unlock()
	var named []store.MailID
	for i := range t.ring {
		if s := &t.ring[i]; name != "" && (s.ID == name || s.Queue == name) && !slices.Contains(named, s.Mail) &&
			len(named) < limit {
			named = append(named, s.Mail)
		}
	}
	for i := range t.ring {
		s := &t.ring[(t.next+len(t.ring)-1-i)%len(t.ring)]
		if id != 0 && s.Mail == id || low != "" && strings.Contains(strings.ToLower(s.Address), low) ||
			slices.Contains(named, s.Mail) {
			if found = append(found, *s); len(found) == limit {
				break
			}
		}
	}
	return found
}
