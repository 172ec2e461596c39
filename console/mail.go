package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"weir/store"
)

// Mail is the mail side of a running weir, for commands. It is safe for concurrent use. by is the operator who asks.
// Besides *Error it may return these errors of the store: store.ErrNotFound, ErrExists, ErrInvalid and ErrTooLarge.
type Mail interface {
	// Queue returns up to limit messages that match, the oldest first.
	Queue(ctx context.Context, q store.LetterQuery, limit int) ([]store.Queued, error)
	// ShowMail returns a message, and up to MaxHeader bytes of its header.
	ShowMail(ctx context.Context, id store.MailID) (mail store.Queued, header string, err error)
	// Release sends held and delayed messages at once, Delete removes them, and Retry repeats a delivery now instead of
	// later.
	Release(ctx context.Context, by string, o MailOrder) (MailResult, error)
	Delete(ctx context.Context, by string, o MailOrder) (MailResult, error)
	Retry(ctx context.Context, by string, ids []store.MailID) (MailResult, error)

	// Users returns a part of the users, in order.
	Users(ctx context.Context, q UserQuery) (UserPage, error)
	// User returns a user and their state in the throttles. A client that is not a user of the store but is known to a
	// throttle, such as an address, has a zero time Made.
	User(ctx context.Context, name string) (UserView, error)
	AddUser(ctx context.Context, by string, u NewUser) (UserView, error)
	// SetUser changes the given fields, all of them or none.
	SetUser(ctx context.Context, by string, c UserChange) (UserView, error)
	Passwd(ctx context.Context, by, name, password string) error
	// RemoveUser removes a user. Their messages stay.
	RemoveUser(ctx context.Context, by, name string) error
	StopUser(ctx context.Context, by, name, why string) (UserView, error)
	ResumeUser(ctx context.Context, by, name string, slow bool) (UserView, error)

	// Audit returns up to limit entries of the audit log, the latest first, before one of them (0: from the end).
	Audit(ctx context.Context, before int64, limit int) ([]store.Entry, error)
	// Backup copies the store to a folder that is empty or missing, and reports progress now and then.
	Backup(ctx context.Context, folder string, progress func(done, total int64)) error
}

var errNoMail = NotFound("there is no mail gate (smtp: in the configuration makes one)")

func (c *Control) mail() (Mail, error) {
	if m := c.backend.Mail(); m != nil {
		return m, nil
	}
	return nil, errNoMail
}

func (c *Control) mailHandlers(mux *http.ServeMux) {
	c.queueHandlers(mux)
	c.userHandlers(mux)
	c.auditHandlers(mux)
	mux.HandleFunc("POST /v1/backup", c.backup)
}

// mailAnswer is answer for handlers that need the mail side.
func mailAnswer[T any](c *Control, f func(*http.Request, Mail, *T) (any, error)) http.HandlerFunc {
	return answer(func(r *http.Request, body *T) (any, error) {
		m, err := c.mail()
		if err != nil {
			return nil, err
		}
		v, err := f(r, m, body)
		return v, understood(err)
	})
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

// limitOf reads the parameter limit; it is bound by default.
func limitOf(r *http.Request, bound int) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return bound, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > bound {
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
	Letters    int                 `json:"letters"`         // messages in the queue
	Recipients map[store.State]int `json:"recipients"`      // not delivered yet, by state
	Stopped    int                 `json:"stopped_users"`   // who may not send
	Flagged    int                 `json:"flagged_users"`   // who write to too many new people, by a reach throttle
	Oldest     time.Time           `json:"oldest,omitzero"` // when the oldest message was accepted
	Accepted   uint64              `json:"accepted"`        // taken over from clients
	Delivered  uint64              `json:"delivered"`       // taken over by the next hop
	Deferred   uint64              `json:"deferred"`        // tries that are to be made again
	Bounced    uint64              `json:"bounced"`         // given up, and the sender told
}

// Summary describes the queue in a sentence.
func (m *MailStatus) Summary() string {
	if m.Letters == 0 {
		return "No mail waits."
	}
	return fmt.Sprintf("%s %s, the oldest since %s.", several(m.Letters, "message"), verb(m.Letters, "waits", "wait"),
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
