package console

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/http"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"weir"
	"weir/console/access"
	"weir/store"
)

// Mail is the mail side of a running weir, for commands. It is safe for concurrent use. by is the operator who asks.
// Besides *Error it may return these errors of the store: store.ErrNotFound, ErrExists, ErrInvalid and ErrTooLarge.
type Mail interface {
	// Queue returns up to limit messages that match, the oldest first.
	Queue(ctx context.Context, q store.MessageQuery, limit int) ([]store.Queued, error)
	// ShowMail returns a message, up to MaxHeader bytes of its header, and its text as MailText finds it.
	ShowMail(ctx context.Context, id store.MailID) (mail store.Queued, header, text string, err error)
	// Release sends held and delayed messages at once, Delete removes them, and Retry repeats a delivery now instead of
	// later.
	Release(ctx context.Context, by string, o MailOrder) (MailResult, error)
	Delete(ctx context.Context, by string, o MailOrder) (MailResult, error)
	Retry(ctx context.Context, by string, ids []store.MailID) (MailResult, error)
	// Find returns up to limit messages that match, behind one of them, and where to go on; 0: nowhere.
	Find(ctx context.Context, f MailFilter, after store.MailID, limit int) ([]store.Queued, store.MailID, error)
	// Bulk acts on a part of all messages that match.
	Bulk(ctx context.Context, by string, f MailFilter, o BulkOrder) (BulkResult, error)
	// Track returns up to limit messages that wait, and up to limit attempts to deliver, of a message or to an address.
	Track(ctx context.Context, q TrackQuery, limit int) ([]store.Queued, []MailStep, error)

	// Users returns a part of the users, in order.
	Users(ctx context.Context, q UserQuery) (UserPage, error)
	// User returns a user and their state in the throttles. A client that is not a user of the store but is known to a
	// throttle, such as an address, has a zero time Made.
	User(ctx context.Context, name string) (UserView, error)
	// UserHistory returns the last hour of a user that User knows.
	UserHistory(ctx context.Context, name string) (UserHistory, error)
	AddUser(ctx context.Context, by string, u NewUser) (UserView, error)
	// SetUser changes the given fields, all of them or none.
	SetUser(ctx context.Context, by string, c UserChange) (UserView, error)
	Passwd(ctx context.Context, by, name, password string) error
	// RemoveUser removes a user. Their messages stay.
	RemoveUser(ctx context.Context, by, name string) error
	StopUser(ctx context.Context, by, name, why string) (UserView, error)
	ResumeUser(ctx context.Context, by, name string, slow bool) (UserView, error)
}

var errNoMail = NotFound("there is no mail gate (smtp: in the configuration makes one)")

// withMail is the function of a call that needs the mail side.
func withMail[In, Out any](f func(*Request, Mail, *In) (Out, error)) func(*Request, *In) (Out, error) {
	return func(q *Request, in *In) (out Out, err error) {
		m := q.backend.Mail()
		if m == nil {
			return out, errNoMail
		}
		return f(q, m, in)
	}
}

// understood gives errors of the store their status on the control socket.
func understood(err error) error {
	for known, as := range map[error]func(string) *Error{
		store.ErrNotFound: NotFound, store.ErrExists: Rejected, store.ErrInvalid: Invalid, store.ErrTooLarge: Invalid,
	} {
		if errors.Is(err, known) {
			// the text before it says the same in better words
			return as(strings.TrimSuffix(err.Error(), ": "+known.Error()))
		}
	}
	return err
}

// missing replaces store.ErrNotFound by a better text.
func missing(err error, format string, a ...any) error {
	if errors.Is(err, store.ErrNotFound) {
		return NotFound(fmt.Sprintf(format, a...))
	}
	return err
}

// limitOf checks a limit; 0 stands for the bound.
func limitOf(limit, bound int) (int, error) {
	switch {
	case limit == 0:
		return bound, nil
	case limit < 0 || limit > bound:
		return 0, Invalid("limit: 1 to " + strconv.Itoa(bound))
	}
	return limit, nil
}

// checkLine returns an error for a text that is empty, longer than a bound, or more than a line.
func checkLine(what, text string, most int, empty bool) error {
	switch {
	case text == "" && !empty:
		return Invalid(what + ": which?")
	case len(text) > most:
		return Invalid(fmt.Sprintf("%s: %d bytes, at most %d", what, len(text), most))
	case !utf8.ValidString(text):
		return Invalid(what + ": not UTF-8")
	}
	for _, r := range text {
		if unicode.IsControl(r) {
			return Invalid(fmt.Sprintf("%s: %q has a character that cannot be printed", what, text))
		}
	}
	return nil
}

// MailStatus sums up the mail side. Totals count recipients since the start.
type MailStatus struct {
	Messages   int                 `json:"messages" metric:"weir_mail_messages" help:"Messages in the queue."`
	Recipients map[store.State]int `json:"recipients"` // not delivered yet, by state
	Stopped    int                 `json:"stopped_users" metric:"weir_mail_stopped_users" help:"Users who may not send mail now."`
	Flagged    int                 `json:"flagged_users" metric:"weir_reach_flagged_users" help:"Users who are flagged now because they write to too many new recipients."`
	Oldest     time.Time           `json:"oldest,omitzero"` // when the oldest message was accepted
	Accepted   uint64              `json:"accepted"`        // taken over from clients
	Delivered  uint64              `json:"delivered"`       // taken over by the next hop
	Deferred   uint64              `json:"deferred"`        // tries that are to be made again
	Bounced    uint64              `json:"bounced"`         // given up, and the sender told
}

// Summary describes the queue in a sentence.
func (m *MailStatus) Summary() string {
	if m.Messages == 0 {
		return "No mail waits."
	}
	return fmt.Sprintf("%s %s, the oldest since %s.", several(m.Messages, "message"), verb(m.Messages, "waits", "wait"),
		m.Oldest.UTC().Format("2006-01-02 15:04:05 UTC"))
}

func (m *MailStatus) StoppedUsers() string {
	return several(m.Stopped, "user") + " " + verb(m.Stopped, "is", "are") + " stopped"
}

func (m *MailStatus) FlaggedUsers() string {
	return several(m.Flagged, "user") + " " + verb(m.Flagged, "is", "are") + " flagged"
}

// In is how many recipients wait in a state, by its name.
func (m *MailStatus) In(state string) int {
	var s store.State
	if s.UnmarshalText([]byte(state)) != nil {
		return 0
	}
	return m.Recipients[s]
}

func several(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Bounds of what is read of a message to show its text.
const (
	MaxMailText  = 64 << 10 // bytes of the text that is shown
	maxMailParts = 50
	maxMailDepth = 5
)

// MailText returns what people can read of a message: its first part in plain text, or else the source of its first
// part in HTML, which is never rendered. raw may be cut off anywhere.
func MailText(raw []byte) string {
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return ""
	}
	f := &textFinder{left: maxMailParts}
	f.find(header(m.Header), m.Body, 0)
	if f.plain != "" {
		return f.plain
	}
	return f.html
}

type header map[string][]string

func (h header) get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// A textFinder goes through the parts of a message until it has found plain text.
type textFinder struct {
	plain, html string
	left        int // parts that may still be looked at
}

func (f *textFinder) find(h header, body io.Reader, depth int) {
	if f.left--; f.left < 0 || f.plain != "" {
		return
	}
	kind, params, err := mime.ParseMediaType(h.get("Content-Type"))
	if err != nil || kind == "" {
		kind = "text/plain"
	}
	if strings.HasPrefix(kind, "multipart/") && depth < maxMailDepth {
		parts := multipart.NewReader(body, params["boundary"])
		for f.left > 0 && f.plain == "" {
			p, err := parts.NextRawPart()
			if err != nil {
				return
			}
			f.find(header(p.Header), p, depth+1)
		}
		return
	}
	if kind != "text/plain" && kind != "text/html" {
		return
	}
	switch strings.ToLower(strings.TrimSpace(h.get("Content-Transfer-Encoding"))) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	text, _ := io.ReadAll(io.LimitReader(body, MaxMailText)) // what could be read is shown
	read := inUTF8(text, strings.ToLower(params["charset"]))
	if kind == "text/plain" {
		f.plain = read
	} else if f.html == "" {
		f.html = read
	}
}

// inUTF8 makes text of bytes. Of a character set that it does not know it keeps what is ASCII.
func inUTF8(b []byte, charset string) string {
	switch charset {
	case "", "utf-8", "us-ascii":
		return strings.ToValidUTF8(string(b), "\ufffd")
	}
	var out strings.Builder
	for _, c := range b {
		switch {
		case c < 0x80 || (charset == "iso-8859-1" || charset == "iso-8859-15" || charset == "windows-1252") && c >= 0xa0:
			out.WriteRune(rune(c))
		default:
			out.WriteRune('\ufffd')
		}
	}
	return out.String()
}

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
