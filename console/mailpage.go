package console

import (
	_ "embed"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"weir"
	"weir/console/access"
	"weir/store"
)

//go:embed mailpage.html
var mailHTML string

//go:embed mailmessages.html
var mailMessagesHTML string

//go:embed mailuser.html
var mailUserHTML string

//go:embed mailmessage.html
var mailMessageHTML string

func hasMail(b Backend) bool { return b.Mail() != nil }

// mailPages show who sends too much, and what waits.
func mailPages() []*page {
	return []*page{
		newPage(page{path: "mail", name: "Mail", role: access.View, show: mailOverview, there: hasMail}, mailHTML,
			mailMessagesHTML),
		newPage(page{path: "mail-user", name: "Mail user", under: "mail", role: access.View, plots: true, show: mailUser,
			there: hasMail}, mailUserHTML, mailMessagesHTML, plotHTML),
		newPage(page{path: "mail-message", name: "Message", under: "mail", role: access.View, show: mailMessage,
			there: hasMail}, mailMessageHTML),
	}
}

// A messageList is messages as a page lists them.
type messageList struct {
	Mails    []messageRow
	Next     bool
	NextPage string
}

type messageRow struct {
	MailLine
	First  []store.Addressee
	Others int
}

// firstRecipients is how many recipients of a message a list shows.
const firstRecipients = 3

func (r messageRow) Bytes() weir.Size { return weir.Size(r.Size) }

// messages lists what waits. path and query are the page that does.
func (v *visit) messages(in MailQuery, path string) (list messageList, err error) {
	in.Limit = pageLines
	if after := v.query.Get("after"); after != "" {
		if in.After, err = store.ParseMailID(after); err != nil {
			return list, Invalid("after: " + err.Error())
		}
	}
	out, err := v.do(&QueueListCall.Call, &in)
	if err != nil {
		return list, err
	}
	p := out.(MailPage)
	for _, m := range p.Mails {
		n := min(len(m.To), firstRecipients)
		list.Mails = append(list.Mails, messageRow{m, m.To[:n], len(m.To) - n + m.More})
	}
	if list.Next = p.Next != 0; list.Next {
		q := url.Values{}
		for name, values := range v.query {
			if name != "said" {
				q[name] = values
			}
		}
		q.Set("after", p.Next.String())
		list.NextPage = path + "?" + q.Encode() + "#messages"
	}
	return list, nil
}

// A mailView is the page Mail.
type mailView struct {
	Mail     *MailStatus
	Stopped  []UserView
	More     bool
	HasReach bool
	Flagged  []ReachView
	Query    struct{ User, State string }
	States   []string
	List     messageList
	Track    string // a recipient, or the id of a message, that is looked for
	Attempts []MailStep
}

// Count is how many recipients are in a state.
func (m *mailView) Count(state string) int {
	for _, s := range store.States {
		if s.String() == state {
			return m.Mail.Recipients[s]
		}
	}
	return 0
}

func mailOverview(v *visit) (any, error) {
	shown := &mailView{Mail: v.status().Mail}
	if shown.Mail == nil {
		return nil, errNoMail
	}
	stopped, err := v.do(&UserListCall.Call, &UserQuery{Stopped: true, Limit: pageLines})
	if err != nil {
		return nil, err
	}
	page := stopped.(UserPage)
	shown.Stopped, shown.More = page.Users, page.Next != ""
	if r := v.backend.Reach(); r != nil {
		shown.HasReach = true
		if shown.Flagged, err = r.Flagged(v, pageLines); err != nil {
			return nil, err
		}
	}
	for _, s := range store.States {
		shown.States = append(shown.States, s.String())
	}
	shown.Query.User, shown.Query.State = v.query.Get("user"), v.query.Get("state")
	in := MailQuery{MailFilter: MailFilter{User: shown.Query.User}}
	if shown.Query.State != "" {
		if err := in.State.UnmarshalText([]byte(shown.Query.State)); err != nil {
			return nil, Invalid("state: " + err.Error())
		}
	}
	if shown.List, err = v.messages(in, "mail"); err != nil {
		return nil, err
	}
	if shown.Track = v.query.Get("track"); shown.Track != "" {
		in := TrackQuery{Recipient: shown.Track}
		if id, err := store.ParseMailID(shown.Track); err == nil {
			in = TrackQuery{ID: id}
		}
		found, err := v.do(&MailTrackCall.Call, &in)
		if e := new(Error); errors.As(err, &e) && e.Code == http.StatusNotFound {
			return shown, nil
		} else if err != nil {
			return nil, err
		}
		attempts := found.(Track).Attempts
		shown.Attempts = attempts[:min(len(attempts), pageLines)]
	}
	return shown, nil
}

func mailUser(v *visit) (any, error) {
	name := v.query.Get("name")
	out, err := v.do(&UserShowCall.Call, &Name{name})
	if err != nil {
		return nil, err
	}
	shown := &struct {
		UserView
		Reach []ReachView
		Past  userPast
		List  messageList
	}{UserView: out.(UserView)}
	past, err := v.do(&UserHistoryCall.Call, &Name{name})
	if err != nil {
		return nil, err
	}
	shown.Past = userPastOf(past.(UserHistory))
	if r := v.backend.Reach(); r != nil {
		if shown.Reach, err = r.ReachOf(v, name, ""); err != nil {
			shown.Reach = nil // no throttle knows them
		}
	}
	shown.List, err = v.messages(MailQuery{MailFilter: MailFilter{User: name}}, "mail-user")
	return shown, err
}

func mailMessage(v *visit) (any, error) {
	id, err := store.ParseMailID(strings.TrimSpace(v.query.Get("id")))
	if err != nil {
		return nil, Invalid("This is not the id of a message: it has 13 letters and digits.")
	}
	out, err := v.do(&QueueShowCall.Call, &MailName{id})
	if err != nil {
		return nil, err
	}
	return messageView{out.(MailView)}, nil
}

// A messageView is the page of a message.
type messageView struct{ MailView }

func (m messageView) Bytes() weir.Size { return weir.Size(m.Size) }
