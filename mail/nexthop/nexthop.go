package nexthop

import "io"

// A Job is one mail to those of its recipients who go together.
type Job struct {
	ID         string // for logs
	Sender     string // empty for the null sender
	Recipients []Recipient
	Size       int64 // of the text; 0 where it is not known
	UTF8       bool
	EightBit   bool
	Return     string // RET: FULL or HDRS
	Envelope   string // ENVID, decoded
	// Open returns the text of the mail, with CRLF line ends and without dots stuffed. It is called once for each
	// attempt at a server, and once more where a text has to be looked at because the server knows no 8BITMIME or
	// SMTPUTF8.
	Open func() (io.ReadCloser, error)
	// Committed is called after the last byte of the text (of which up to 32 KiB go out together with the dot) and
	// before the final dot, from which moment on it cannot be known what the server has done unless it answers. An
	// error of it ends the attempt before the dot. It is called again for each further transaction: where there are
	// more recipients than one may have, and at another server. May be nil.
	Committed func() error
}

// A Recipient is one of the envelope.
type Recipient struct {
	Address  string
	Notify   string // NOTIFY: NEVER, or of SUCCESS, FAILURE and DELAY, separated by commas
	Original string // ORCPT with its type, decoded: rfc822;ann@example.org
}

// An Outcome is what became of one recipient.
type Outcome uint8

// The outcomes.
const (
	Done      Outcome = iota // the server took it (and the responsibility for DSN where it knows DSN)
	Later                    // a temporary failure: try again
	Failed                   // a permanent failure: tell the sender
	Ambiguous                // the connection ended after the final dot without an answer
)

var outcomeNames = [...]string{"done", "later", "failed", "ambiguous"}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown"
}

// A Result is what became of one recipient, and what the server said.
type Result struct {
	Outcome Outcome
	Code    int    // of the reply; 0 where there was none
	Status  string // enhanced, such as 5.1.1; made up where the server gave none
	Text    string // of the reply, in one line, bounded; or what went wrong
	Server  string // who said it, with the port; empty where no server was asked
	Relayed bool   // Done, by a server that knows no DSN: a NOTIFY=SUCCESS is answered by us (RFC 3461 section 5.2.2)
}

// Enhanced codes (RFC 3463) of what went wrong on our side or on the way.
const (
	statusNoAnswer   = "4.4.1"
	statusConnection = "4.4.2"
	statusOurs       = "4.3.0"
	statusStopping   = "4.3.2"
	statusProtocol   = "4.5.0"
	statusSecurity   = "4.7.0"

	statusBadRecipient = "5.1.3"
	statusBadSender    = "5.1.7"
	statusTooLarge     = "5.3.4"
	statusBadText      = "5.6.0"
)

// What a mail failed with, without a Code, that the server could not be given: it knows no 8BITMIME, or no SMTPUTF8.
const (
	StatusEightBit = "5.6.3"
	StatusUTF8     = "5.6.7"
)
