package app

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"weir/config"
	"weir/console"
	"weir/farm"
	"weir/internal/clock"
	"weir/internal/readfile"
	"weir/mail/spool"
	"weir/notify"
)

// How conditions are looked for.
const (
	noticeEvery = 5 * time.Second
	// certificatesEvery is how often the files of certificates are read.
	certificatesEvery = time.Hour
	// certificateAhead is how long before its end a certificate is told of.
	certificateAhead = 14 * 24 * time.Hour
	// manyAttackers is how many networks far over their limit make an attack.
	manyAttackers = 100
	// maxToldUsers is how many stopped and how many flagged users are watched.
	maxToldUsers = 1000
)

// A condition is something that people want to know of while it lasts.
type condition struct {
	event notify.Event
	about string
}

// A lasting is a condition that was seen.
type lasting struct {
	text string
	seen int  // how many looks in a row
	gone int  // for how many looks it has not been there
	told bool // people know
}

// needed is for how many looks a condition must be there before people are told, and not be there before they are told
// that it is over. Load comes and goes; a user who is stopped stays stopped.
func (c condition) needed() (seen, gone int) {
	switch c.event {
	case notify.Attack, notify.Collateral:
		return 2, 12
	case notify.NodeLost:
		return 2, 1
	}
	return 1, 1
}

// notices looks for conditions and has people told. One timer serves all; without targets there is none.
type notices struct {
	app *App

	mu       sync.Mutex
	options  notify.Options
	notifier *notify.Notifier // nil without targets
	timer    clock.Timer
	lasting  map[condition]*lasting
	turned   map[string]uint64 // how many were turned away at a gate, at the last look
	ends     map[string]time.Time
	read     time.Time // when the certificates were
	over     bool
}

// apply takes up the targets of a configuration. It is called when a generation has taken effect.
func (n *notices) apply(cfg *config.Config) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return
	}
	n.read = time.Time{}
	if reflect.DeepEqual(n.options, cfg.Notify) {
		return
	}
	if n.notifier != nil {
		go n.notifier.Close(n.app.retreat)
		n.notifier = nil
	}
	n.options = cfg.Notify
	if len(n.options) == 0 {
		return
	}
	notifier, err := notify.New(n.options, notify.Env{Clock: n.app.opts.Clock, Log: n.app.opts.Log,
		Node: n.app.nodeName(cfg)})
	if err != nil {
		n.app.opts.Log.Error("notices cannot be sent", "err", err)
		return
	}
	n.notifier = notifier
	if n.timer == nil {
		n.timer = n.app.opts.Clock.AfterFunc(noticeEvery, n.tick)
	}
}

// nodeName is what this weir is called in notices.
func (a *App) nodeName(cfg *config.Config) string {
	if cfg.Farm != nil {
		return cfg.Farm.WithDefaults().Node
	}
	host, _ := os.Hostname() // it has a name nearly always
	return host
}

// stop ends it. What waits is tried once more.
func (n *notices) stop(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
	if n.timer != nil {
		n.timer.Stop()
	}
	if n.notifier != nil {
		n.notifier.Close(ctx)
		n.notifier = nil
	}
}

func (n *notices) tick() {
	ctx, cancel := context.WithTimeout(context.Background(), noticeEvery)
	defer cancel()
	found := n.find(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over || n.notifier == nil {
		n.timer = nil
		return
	}
	n.compare(found, n.app.opts.Clock.Now())
	n.timer = n.app.opts.Clock.AfterFunc(noticeEvery, n.tick)
}

// compare tells of what is new and of what is over. The lock is held.
func (n *notices) compare(found map[condition]string, now time.Time) {
	for c, text := range found {
		l := n.lasting[c]
		if l == nil {
			l = &lasting{}
			n.lasting[c] = l
		}
		l.text, l.gone = text, 0
		l.seen++
		if seen, _ := c.needed(); !l.told && l.seen >= seen {
			l.told = true
			n.notifier.Tell(notify.Notice{Event: c.event, Time: now, About: c.about, Text: text})
		}
	}
	for c, l := range n.lasting {
		if _, still := found[c]; still {
			continue
		}
		l.seen = 0
		l.gone++
		switch _, gone := c.needed(); {
		case !l.told:
			delete(n.lasting, c)
		case l.gone >= gone:
			delete(n.lasting, c)
			n.notifier.Tell(notify.Notice{Event: c.event, Over: true, Time: now, About: c.about, Text: "Over: " + l.text})
		}
	}
}

// NotifyTargets returns how the targets do.
func (b backend) NotifyTargets() []notify.Stats {
	b.notices.mu.Lock()
	defer b.notices.mu.Unlock()
	if b.notices.notifier == nil {
		return []notify.Stats{}
	}
	return b.notices.notifier.Stats()
}

// TryNotify sends a test to all targets.
func (b backend) TryNotify(ctx context.Context, by string) []notify.Result {
	b.notices.mu.Lock()
	notifier := b.notices.notifier
	b.notices.mu.Unlock()
	if notifier == nil {
		return nil
	}
	return notifier.Try(ctx, by)
}

// find returns the conditions that are there now, with a sentence about each.
func (n *notices) find(ctx context.Context) map[condition]string {
	found := map[condition]string{}
	s := backend{n.app}.Status()
	n.load(&s, found)
	for _, t := range s.Throttles {
		n.sources(&t, found)
	}
	n.mailUsers(ctx, found)
	for _, p := range s.Store.Parts {
		if p.Error != "" {
			found[condition{notify.Disk, p.Part}] = fmt.Sprintf("The data folder cannot be written (%s): %s.", p.Part, p.Error)
		}
	}
	if s.Farm != nil {
		for _, node := range s.Farm.Nodes {
			if node.State == string(farm.Lost) {
				found[condition{notify.NodeLost, node.Name}] = fmt.Sprintf("The node %s is not heard any more.", node.Name)
			}
		}
	}
	n.certificates(found)
	return found
}

// load finds gates whose clients have to pay or are turned away.
func (n *notices) load(s *console.Status, found map[condition]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range s.Gates {
		if g.Capacity == nil {
			continue
		}
		before, known := n.turned[g.Gate]
		n.turned[g.Gate] = g.Capacity.TurnedAway
		if more := g.Capacity.TurnedAway - before; known && g.Capacity.TurnedAway > before && g.Capacity.Load >= 1 {
			found[condition{notify.Attack, g.Gate}] = fmt.Sprintf("The gate %s is asked for %.1f times what its service can "+
				"do: %d requests in %s had to pay or were turned away.", g.Gate, g.Capacity.Load, more, noticeEvery)
		}
	}
}

// sources finds Bloom limiters with many attackers, or with more collateral than planned.
func (n *notices) sources(t *console.ThrottleStatus, found map[condition]string) {
	if t.Bloom == nil {
		return
	}
	if t.Bloom.Attackers >= manyAttackers {
		found[condition{notify.Attack, t.Throttle}] = fmt.Sprintf("The throttle %s holds back about %d networks that are far "+
			"over their limit.", t.Throttle, t.Bloom.Attackers)
	}
	o := n.app.current.Load().cfg.Throttles[t.Throttle].Bloom
	if o == nil {
		return
	}
	if plan := float64(o.WithDefaults().Collateral); t.Bloom.Collateral > plan {
		found[condition{notify.Collateral, t.Throttle}] = fmt.Sprintf("The throttle %s refuses about %.1f %% of innocent "+
			"networks; %.1f %% were planned. A larger table helps.", t.Throttle, 100*t.Bloom.Collateral, 100*plan)
	}
}

// mailUsers finds users who are stopped or flagged.
func (n *notices) mailUsers(ctx context.Context, found map[condition]string) {
	b := backend{n.app}
	if m := b.Mail(); m != nil {
		q := console.UserQuery{Stopped: true, Limit: console.MaxUserPage}
		for told := 0; told < maxToldUsers; {
			page, err := m.Users(ctx, q)
			if err != nil {
				n.app.opts.Log.Warn("stopped users cannot be told of", "err", err)
				break
			}
			for _, u := range page.Users {
				if !slices.ContainsFunc(u.Throttles, func(s spool.Standing) bool { return s.Stopped && !s.Shadow }) {
					continue
				}
				found[condition{notify.UserStopped, u.Name}] = fmt.Sprintf("The mail user %s is stopped.", u.Name)
			}
			told += len(page.Users)
			if q.After = page.Next; page.Next == "" {
				break
			}
		}
	}
	if r := b.Reach(); r != nil {
		flagged, err := r.Flagged(ctx, maxToldUsers)
		if err != nil {
			n.app.opts.Log.Warn("flagged users cannot be told of", "err", err)
		}
		for _, v := range flagged {
			if !v.Shadow {
				found[condition{notify.UserFlagged, v.User}] = fmt.Sprintf("The account %s writes to new people as if it were "+
					"stolen (throttle %s): %s.", v.User, v.Throttle, v.Why)
			}
		}
	}
}

// certificates finds those that end soon. Files are read once an hour, and after a reload.
func (n *notices) certificates(found map[condition]string) {
	now := n.app.opts.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.read.IsZero() || now.Sub(n.read) >= certificatesEvery {
		n.read, n.ends = now, map[string]time.Time{}
		for _, path := range certificateFiles(n.app.current.Load().cfg) {
			if end, err := certificateEnd(path); err == nil { // the gate says what is wrong with it
				n.ends[path] = end
			}
		}
	}
	for path, end := range n.ends {
		switch left := end.Sub(now); {
		case left <= 0:
			found[condition{notify.Certificate, path}] = fmt.Sprintf("The certificate %s has ended at %s.", path,
				end.UTC().Format(time.RFC3339))
		case left < certificateAhead:
			found[condition{notify.Certificate, path}] = fmt.Sprintf("The certificate %s ends at %s.", path,
				end.UTC().Format(time.RFC3339))
		}
	}
}

// certificateFiles are the files that certificates are in. A gate renews those that it gets by itself long before they
// end: one that ends soon tells that it could not.
func certificateFiles(cfg *config.Config) (all []string) {
	for i := range cfg.HTTP {
		if t := cfg.HTTP[i].TLS; t != nil {
			all = append(all, t.Files(cfg.Data)...)
		}
		if t := cfg.HTTP[i].Upstream.TLS; t != nil { // it is renewed by others
			all = append(all, t.Cert)
		}
	}
	for i := range cfg.SMTP {
		all = append(all, cfg.SMTP[i].TLS.Cert)
	}
	if t := cfg.Console.TLS; t != nil {
		all = append(all, t.Cert)
	}
	if cfg.Farm != nil {
		all = append(all, cfg.Farm.TLS.Cert, cfg.Farm.CountersTLS.Cert)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(path string) bool { return path == "" })
}

// certificateEnd reads when the first certificate of a file ends.
func certificateEnd(path string) (time.Time, error) {
	text, err := readfile.Read(path, readfile.MaxPEM)
	if err != nil {
		return time.Time{}, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return time.Time{}, err
			}
			return c.NotAfter, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s has no certificate", path)
}
