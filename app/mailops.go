package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/mail"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/gate/smtpgate"
	"weir/identify"
	"weir/mail/login"
	"weir/mail/spool"
	"weir/policy"
	"weir/store"
	limits "weir/throttle/outbreak"
)

// mailOps is what operators can do with mail.
type mailOps struct{ *App }

var _ console.Mail = mailOps{}

// Mail returns the mail side, or nil where there is no gate for mail.
func (b backend) Mail() console.Mail {
	if b.post.Spool == nil || !hasMail(b.current.Load().cfg) {
		return nil
	}
	return mailOps(b)
}

func (d mailOps) now() time.Time { return d.opts.Clock.Now() }

func (d mailOps) Queue(ctx context.Context, q store.MessageQuery, limit int) ([]store.Queued, error) {
	if q.User != "" {
		q.User = d.named(ctx, q.User)
	}
	return d.post.Queue(ctx, q, limit)
}

// maxShown is how much of a message is read to find the text to show: the text may come after a large picture.
const maxShown = 4 << 20

func (d mailOps) ShowMail(ctx context.Context, id store.MailID) (q store.Queued, header, text string, err error) {
	if q, err = d.post.Show(ctx, id); err != nil {
		return q, "", "", err
	}
	source, err := d.kept.Load().store.Mail().Open(ctx, id)
	if err != nil {
		return q, "", "", err
	}
	defer source.Close()
	raw, err := io.ReadAll(io.LimitReader(source, maxShown))
	head := raw[:min(len(raw), console.MaxHeader)]
	if end := bytes.Index(head, []byte("\r\n\r\n")); end >= 0 {
		head = head[:end+2]
	}
	return q, string(head), console.MailText(raw), err
}

func (d mailOps) Release(ctx context.Context, by string, o console.MailOrder) (console.MailResult, error) {
	return d.order(ctx, by, o, d.post.Release, d.post.ReleaseMails)
}

func (d mailOps) Delete(ctx context.Context, by string, o console.MailOrder) (console.MailResult, error) {
	return d.order(ctx, by, o, d.post.Delete, d.post.DeleteMails)
}

func (d mailOps) order(ctx context.Context, by string, o console.MailOrder,
	ofUser func(context.Context, time.Time, string, string, spool.Selection) (int, error),
	mails func(context.Context, time.Time, string, []store.MailID) (int, error)) (r console.MailResult, err error) {
	if o.All {
		o.User = d.named(ctx, o.User)
		before, err := d.count(ctx, o.User)
		if err != nil {
			return r, err
		}
		r.Mails = before
		r.Recipients, err = ofUser(ctx, d.now(), by, o.User, spool.Selection{All: true})
		return r, err
	}
	for _, id := range o.Mails { // one by one, to find out which of them do not exist
		n, err := mails(ctx, d.now(), by, []store.MailID{id})
		if err != nil {
			return r, err
		}
		note(&r, id, n)
	}
	return r, nil
}

func note(r *console.MailResult, id store.MailID, recipients int) {
	if recipients == 0 {
		r.Missing = append(r.Missing, id)
		return
	}
	r.Mails++
	r.Recipients += recipients
}

// count is how many messages of a user wait. It looks at the first MaxMailPage of them.
func (d mailOps) count(ctx context.Context, user string) (int, error) {
	list, err := d.post.Queue(ctx, store.MessageQuery{User: user}, console.MaxMailPage)
	n := 0
	for i := range list {
		if slices.ContainsFunc(list[i].To, func(a store.Addressee) bool { return spool.Waits(&a) }) {
			n++
		}
	}
	return n, err
}

func (d mailOps) Retry(ctx context.Context, by string, ids []store.MailID) (r console.MailResult, err error) {
	for _, id := range ids {
		n, err := d.post.RetryMails(ctx, d.now(), []store.MailID{id})
		if err != nil {
			return r, err
		}
		note(&r, id, n)
	}
	return r, nil
}

func (d mailOps) Users(ctx context.Context, q console.UserQuery) (p console.UserPage, err error) {
	var names []string
	if q.Stopped {
		names = d.post.StoppedUsers(q.After, q.Limit+1)
	} else {
		var all []store.User
		all, err = d.post.Users(ctx, q.After, q.Limit+1)
		for i := range all {
			names = append(names, all[i].Name)
		}
	}
	if err != nil {
		return p, err
	}
	if len(names) > q.Limit {
		names = names[:q.Limit]
		p.Next = names[q.Limit-1]
	}
	for _, name := range names {
		u, err := d.User(ctx, name)
		if errors.Is(err, store.ErrNotFound) {
			continue // the user was removed in the meantime
		}
		if err != nil {
			return p, err
		}
		p.Users = append(p.Users, u)
	}
	return p, nil
}

func (d mailOps) User(ctx context.Context, name string) (v console.UserView, err error) {
	name = d.named(ctx, name)
	v.User, err = d.post.User(ctx, name)
	unknown := errors.Is(err, store.ErrNotFound)
	if err != nil && !unknown {
		return v, err
	}
	v.User.Name, v.LogIn = name, v.Password != ""
	cfg := d.current.Load().cfg
	if v.Never, _ = cfg.NeverSends(name); v.Never == "" && d.userName(name) != name {
		v.Never = fmt.Sprintf("whoever logs in is %s, by the realm %s", d.userName(name), cfg.Realm())
	}
	standings, err := d.post.Standing(ctx, d.now(), name)
	if err != nil {
		return v, err
	}
	v.Throttles = []spool.Standing{}
	for _, s := range standings {
		if unknown && !s.Known {
			continue
		}
		v.Throttles = append(v.Throttles, s)
	}
	if unknown && len(v.Throttles) == 0 {
		return v, store.ErrNotFound
	}
	return v, nil
}

func (d mailOps) AddUser(ctx context.Context, by string, n console.NewUser) (console.UserView, error) {
	name := d.userName(n.Name)
	hash, err := d.hashed(n.Password)
	if err = errors.Join(err, d.checkContact(n.Contact), checkSenders(n.Senders)); err != nil {
		return console.UserView{}, err
	}
	if n.Dry && err == nil {
		return d.checked(&store.User{Name: name}, n.Limits)
	}
	err = d.post.ChangeUser(ctx, d.now(), by, name, func(u *store.User, isNew bool) error {
		if !isNew {
			return store.ErrExists
		}
		u.Password, u.Contact, u.Senders, u.Language = hash, n.Contact, n.Senders, n.Language
		if n.Old {
			u.Made = time.Time{}
		}
		return setLimits(u, n.Limits)
	})
	if err != nil {
		return console.UserView{}, err
	}
	return d.User(ctx, name)
}

// hashed returns what is stored for a password; "" for none.
func (d mailOps) hashed(password string) (string, error) {
	if password == "" {
		return "", nil
	}
	if err := login.Check(password); err != nil {
		return "", console.Invalid(strings.TrimPrefix(err.Error(), "login: "))
	}
	return d.post.door.Verifier.Hash(password)
}

func (d mailOps) checkContact(contact string) error {
	switch {
	case contact == "":
	case !isAddress(contact):
		return console.Invalid(fmt.Sprintf("contact: %.80q is not a mail address (write ann@example.org)", contact))
	case d.post.Commands(contact):
		return console.Invalid(fmt.Sprintf("contact: %.80q is where commands go: the user would never be told (write "+
			"an address that they read)", contact))
	}
	return nil
}

func checkSenders(senders []string) error {
	for _, s := range senders {
		address := s
		if strings.HasPrefix(s, "@") {
			address = "any" + s
		}
		if !isAddress(address) {
			return console.Invalid(fmt.Sprintf("senders: %.80q is not a mail address (write ann@example.org, or "+
				"@example.org for every address there)", s))
		}
	}
	return nil
}

func isAddress(text string) bool {
	a, err := mail.ParseAddress(text)
	return err == nil && a.Address == text
}

// setLimits sets the user's own limits, by name. An empty value removes a limit.
func setLimits(u *store.User, given map[string]string) error {
	l, err := limits.ParseLimits(u.Limits)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if err := l.Set(key + "=" + given[key]); err != nil {
			return console.Invalid(err.Error())
		}
	}
	if err := l.Validate(); err != nil {
		return console.Invalid(err.Error())
	}
	u.Limits = l.String()
	return nil
}

func (d mailOps) SetUser(ctx context.Context, by string, c console.UserChange) (console.UserView, error) {
	c.Name = d.named(ctx, c.Name)
	if c.Contact != nil {
		if err := d.checkContact(*c.Contact); err != nil {
			return console.UserView{}, err
		}
	}
	if c.Senders != nil {
		if err := checkSenders(*c.Senders); err != nil {
			return console.UserView{}, err
		}
	}
	if err := checkSenders(c.AddSenders); err != nil {
		return console.UserView{}, err
	}
	if c.Dry {
		return d.checked(&store.User{Name: c.Name}, c.Limits)
	}
	err := d.post.ChangeUser(ctx, d.now(), by, c.Name, func(u *store.User, isNew bool) error {
		if isNew {
			return store.ErrNotFound
		}
		if c.Contact != nil {
			u.Contact = *c.Contact
		}
		if c.Language != nil {
			u.Language = *c.Language
		}
		if c.Senders != nil {
			u.Senders = *c.Senders
		}
		u.Senders = slices.DeleteFunc(slices.Clone(u.Senders),
			func(s string) bool { return slices.Contains(c.RemoveSenders, s) })
		for _, s := range c.AddSenders {
			if !slices.Contains(u.Senders, s) {
				u.Senders = append(u.Senders, s)
			}
		}
		if c.Disabled != nil {
			u.Disabled = *c.Disabled
		}
		return setLimits(u, c.Limits)
	})
	if err != nil {
		return console.UserView{}, err
	}
	return d.User(ctx, c.Name)
}

// checked returns what is wrong with limits. It changes nothing.
func (d mailOps) checked(u *store.User, given map[string]string) (console.UserView, error) {
	never, _ := d.current.Load().cfg.NeverSends(u.Name)
	return console.UserView{User: *u, Never: never}, setLimits(u, given)
}

func (d mailOps) Passwd(ctx context.Context, by, name, password string) error {
	hash, err := d.hashed(password)
	if err != nil {
		return err
	}
	return d.post.ChangeUser(ctx, d.now(), by, d.named(ctx, name), func(u *store.User, isNew bool) error {
		if isNew {
			return store.ErrNotFound
		}
		u.Password = hash
		return nil
	})
}

func (d mailOps) RemoveUser(ctx context.Context, by, name string) error {
	return d.post.RemoveUser(ctx, d.now(), by, d.named(ctx, name))
}

// StopUser stops a user, or a client that is known by its address.
func (d mailOps) StopUser(ctx context.Context, by, name, why string) (console.UserView, error) {
	name = d.named(ctx, name)
	if _, ok := identify.ParseAddressUser(name); !ok {
		if _, err := d.User(ctx, name); err != nil {
			return console.UserView{}, err
		}
	}
	if err := d.post.StopUser(ctx, d.now(), by, name, why); err != nil {
		return console.UserView{}, err
	}
	return d.User(ctx, name)
}

func (d mailOps) ResumeUser(ctx context.Context, by, name string, slow bool) (console.UserView, error) {
	name = d.named(ctx, name)
	switch u, err := d.User(ctx, name); {
	case err != nil:
		return u, err
	case u.Disabled:
		return u,
			console.Rejected(fmt.Sprintf("%s is disabled (weir user set %s disabled=false enables the user)", name, name))
	case !u.Stopped():
		return u, console.Rejected(fmt.Sprintf("%s is not stopped", name))
	}
	if err := d.post.ResumeUser(ctx, d.now(), by, name, slow); err != nil {
		return console.UserView{}, err
	}
	return d.User(ctx, name)
}

// mailStatus sums up what the spool has and does; nil if there is no mail.
func (b backend) mailStatus() *console.MailStatus {
	if b.Mail() == nil {
		return nil
	}
	o := b.post.seen
	s := &console.MailStatus{Recipients: map[store.State]int{}, Accepted: o.accepted.Load(),
		Delivered: o.delivered.Load(), Deferred: o.deferred.Load(),
		Bounced: o.bounced.Load(), Stopped: b.post.CountStopped(), Flagged: b.post.CountFlagged()}
	ctx, cancel := context.WithTimeout(context.Background(), statusPatience)
	defer cancel()
	messages, by, err := b.post.Count(ctx)
	if err != nil {
		return s // the store says of itself that it fails
	}
	s.Messages, s.Recipients = messages, by
	if first, err := b.post.Queue(ctx, store.MessageQuery{}, 1); err == nil && len(first) > 0 {
		s.Oldest = first[0].Received
	}
	return s
}

const statusPatience = 2 * time.Second

// nullSender is how a question says that a mail has no sender.
const nullSender = "<>"

// whyMail asks what a gate for mail would make of a mail: its chains, and the throttles that the spool runs.
func (b backend) whyMail(gt *gate, q console.Question) (console.Explanation, error) {
	user := b.userName(q.User)
	if user == "" || len(q.To) == 0 {
		return console.Explanation{},
			console.Invalid(fmt.Sprintf("the gate %s takes mail: name a user and a recipient (weir why --user ann --to "+
				"bob@example.com)", gt.listen))
	}
	source, err := sourceOf(q)
	if err != nil {
		return console.Explanation{}, err
	}
	if gt.kind == "smtp" {
		for _, address := range append([]string{q.Sender}, q.To...) {
			if err := smtpgate.CheckAddress(address); err != nil && address != "" && address != nullSender {
				return console.Explanation{}, console.Invalid(fmt.Sprintf("the gate %s does not take %q: %v (write "+
					"bob@example.com)", gt.listen, address, err))
			}
		}
	}
	sender := q.Sender
	switch sender {
	case "":
		sender = user
	case nullSender:
		sender = ""
	}
	ev := weir.Event{
		Time: b.clock.Now(), Source: source, Account: user, Plan: q.Plan, Kind: smtpgate.KindMail, Cost: 1,
		Message: &weir.Message{User: user, Recipients: q.To},
	}
	if gt.kind == "smtp" {
		ev.Client = smtpgate.ClientMark + user
	}
	steps, verdict := gt.explain(&ev, gt.chain)
	if verdict.Verdict < weir.Challenge {
		each := ev
		each.Cost = int64(len(q.To)) // all of them together
		more, other := gt.each.Explain(&each)
		steps = append(steps, slices.DeleteFunc(more, func(s policy.Step) bool { return s.Throttle == config.Bans })...)
		if other.Verdict > verdict.Verdict {
			verdict = other
		}
	}
	e := explanation(steps, verdict)
	e.Gate = gt.listen
	ctx, cancel := context.WithTimeout(context.Background(), notePatience)
	defer cancel()
	foreseen, err := b.post.Foresee(ctx, ev.Time, gt.post.Name, user, sender, q.To)
	if err != nil {
		return console.Explanation{}, err
	}
	for _, f := range foreseen {
		for i := range f.Figures {
			f.Figures[i].By = f.Throttle
		}
		e.Steps = append(e.Steps, console.Step{
			Throttle: f.Throttle, Shadow: f.Shadow, Verdict: f.Verdict, Reason: f.Reason, Text: f.Text,
			Rules: console.Rules(f.Figures),
		})
		if !f.Shadow && f.Verdict > e.Verdict {
			e.Verdict, e.By, e.Text = f.Verdict, f.Throttle, fmt.Sprintf("%s by %s: %s", f.Verdict, f.Throttle, f.Text)
		}
	}
	return e, nil
}
