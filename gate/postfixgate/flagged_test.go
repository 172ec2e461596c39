package postfixgate

import (
	"errors"
	"testing"

	"weir/mail/spool"
)

// Who is flagged is refused at RCPT, recipient by recipient, and at the end of a mail in the same words.
func TestFlaggedUsers(t *testing.T) {
	const rcpt = "protocol_state=RCPT sasl_username=flagged instance=1 recipient="
	for _, c := range []struct {
		err  error
		want string
	}{
		{spool.ErrNewRecipient, "REJECT 5.7.1"},
		{spool.ErrFlagged, "REJECT 5.7.1"},
		{spool.ErrFlaggedLimit, "DEFER 4.7.1"},
		{spool.ErrNulls, "DEFER 4.7.1"},
		{errors.New("disk"), "DEFER_IF_PERMIT 4.3.0"},
	} {
		r := start(t, Options{}, Parts{})
		r.desk.flagged = c.err
		conn := r.dial()
		want(t, conn.ask(rcpt+"known@example.net"), "DUNNO")
		want(t, conn.ask(rcpt+"new@example.net"), c.want)
		if refusing(c.err) == (answer{}) {
			continue
		}
		r.desk.decide = func(question) (spool.Verdict, error) { return spool.Verdict{Refused: true, Why: c.err}, nil }
		want(t,
			conn.ask("protocol_state=DATA sasl_username=ann instance=2 recipient=new@example.net recipient_count=1"),
			c.want)
	}
}
