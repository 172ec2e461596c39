package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir"
	"weir/console"
	"weir/internal/shown"
	"weir/internal/words"
	"weir/mail/login"
	"weir/mail/notice"
	"weir/mail/spool"
	"weir/store"
)

// selfService is the mail side as mail users see it.
type selfService struct{ *App }

var _ console.SelfServiceBackend = selfService{}

// understood turns what the spool says into what the pages know.
func understood(err error) error {
	for from, to := range map[error]error{
		notice.ErrForged: console.ErrForged, notice.ErrOld: console.ErrOld, spool.ErrSpent: console.ErrTwice,
	} {
		if errors.Is(err, from) {
			return to
		}
	}
	return err
}

// Page returns what the holder of a ticket sees.
func (s selfService) Page(ctx context.Context, ticket string) (console.PageView, error) {
	v, err := s.post.Page(ctx, s.opts.Clock.Now(), ticket)
	if err != nil {
		return console.PageView{}, understood(err)
	}
	return s.shown(ctx, v)
}

// shown is what a user sees, as the pages know it.
func (s selfService) shown(ctx context.Context, v spool.PageView) (console.PageView, error) {
	p := console.PageView{User: v.User, Stopped: v.Stopped, Since: v.Since, Until: v.Until, Waiting: v.Waiting,
		Limit: v.Limit, Resume: v.Resume, ByOperator: v.ByOperator, Elsewhere: v.Elsewhere.Text()}
	switch u, err := s.post.User(ctx, v.User); {
	case err == nil:
		p.Contact, p.LogIn, p.Known, p.Language = u.Contact, u.Password != "", true, u.Language
	case !errors.Is(err, store.ErrNotFound):
		return p, err
	}
	for i := range v.Held {
		q := &v.Held[i]
		m := console.PageMail{ID: q.ID, At: q.Received, Subject: shown.Text(q.Subject), Size: q.Size}
		for _, a := range q.To {
			if !spool.Waits(&a) {
				continue
			}
			m.Delayed = m.Delayed || a.State == store.Delayed
			m.Held, m.New = m.Held || a.State == store.Held, m.New || a.State == store.Withheld
			if len(m.To) == console.MaxPageRecipients {
				m.More++
				continue
			}
			m.To = append(m.To, shown.Text(a.Address))
		}
		p.Mails = append(p.Mails, m)
	}
	if v.More {
		p.More = 1
	}
	return p, nil
}

// Act does what a user wants with their own mail, once for each form.
func (s selfService) Act(ctx context.Context, ticket, form string, c console.Command) (console.Outcome, error) {
	done, err := s.post.Act(ctx, s.opts.Clock.Now(), ticket, form,
		spool.Action{Release: c.Release, Delete: c.Delete, ReleaseAll: c.ReleaseAll, DeleteAll: c.DeleteAll,
			UpTo: c.UpTo, Resume: c.Resume})
	if err != nil {
		return console.Outcome{}, understood(err)
	}
	if done.Refused {
		return console.Outcome{},
			console.Rejected(string(byOperator))
	}
	return console.Outcome{Released: done.Released, Deleted: done.Deleted, Resumed: done.Resumed, Held: done.Held,
		Flagged: done.Flagged}, nil
}

const byOperator words.Text = "An operator of the mail server stopped you, and only they can let you send again. " +
	"Please ask for help."

// whoever returns the user of a ticket whose password is right. Wrong ones are limited for each user, apart from those
// of people without a ticket.
func (s selfService) whoever(ctx context.Context, ticket, password string) (u store.User, err error) {
	v, err := s.post.Page(ctx, s.opts.Clock.Now(), ticket)
	if err != nil {
		return u, understood(err)
	}
	if u, err = s.post.User(ctx, v.User); err != nil && !errors.Is(err, store.ErrNotFound) {
		return u, err
	}
	return u, refused(s.post.door.LogIn(ctx, &login.Attempt{Name: v.User, Stored: u.Password, Password: password,
		Event: func() weir.Event { return weir.Event{Time: s.opts.Clock.Now(), Account: v.User} },
		Own:   &login.Limit{Throttle: s.post.tickets, Key: "ticket " + v.User}}))
}

// ChangePassword gives a user another password.
func (s selfService) ChangePassword(ctx context.Context, ticket, old, new string) error {
	u, err := s.whoever(ctx, ticket, old)
	if err != nil {
		return err
	}
	return mailOps(s).Passwd(ctx, byPage(u), u.Name, new)
}

// ChangeContact gives a user another address for notices.
func (s selfService) ChangeContact(ctx context.Context, ticket, password, contact string) error {
	u, err := s.whoever(ctx, ticket, password)
	if err != nil {
		return err
	}
	_, err = mailOps(s).SetUser(ctx, byPage(u), console.UserChange{Name: u.Name, Contact: &contact})
	return err
}

// ChangeLanguage sets the language that a user reads.
func (s selfService) ChangeLanguage(ctx context.Context, ticket, language string) error {
	now := s.opts.Clock.Now()
	v, err := s.post.Page(ctx, now, ticket)
	if err != nil {
		return understood(err)
	}
	_, err = mailOps(s).SetUser(ctx, v.User+", on the page", console.UserChange{Name: v.User, Language: &language})
	return err
}

func byPage(u store.User) string { return fmt.Sprintf("%s, on the page", u.Name) }

// pageGuesses is how many wrong passwords of a user are looked at on the page for log-ins, and on those of links.
var pageGuesses = wrongPasswords(10, 10*time.Minute)
