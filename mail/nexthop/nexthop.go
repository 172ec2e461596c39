package nexthop

import (
	"io"

	"weir"
)

// A Job is one message and the recipients that it is delivered to now.
type Job struct {
	ID         string // for logs
	Sender     string // empty for the null sender
	Recipients []Recipient
	Size       int64 // of the text; 0: unknown
	UTF8       bool
	EightBit   bool
	Return     string // RET: FULL or HDRS
	Envelope   string // ENVID, decoded
	// Open returns the text of the message, with CRLF line ends and without doubled dots. It is called once for each
	// attempt at a server, and once more if the text has to be looked at because the server has no 8BITMIME or
	// SMTPUTF8.
	Open func() (io.ReadCloser, error)
	// Committed is called after the text and before the final dot. From the dot on it is unknown what the server has
	// done, until it answers. An error ends the attempt before the dot. It is called again for each further
	// transaction: for more recipients than one may have, and at another server. May be nil.
	Committed func() error
}

// A Recipient is one recipient of a Job.
type Recipient struct {
	Address  string
	Notify   string // NOTIFY: NEVER, or of SUCCESS, FAILURE and DELAY, separated by commas
	Original string // ORCPT with its type, decoded: rfc822;ann@example.org
}

// An Outcome is what became of one recipient.
type Outcome uint8

// The outcomes.
const (
	Done      Outcome = iota // the server took it (and the responsibility for DSN if it has DSN)
	Later                    // a temporary failure: try again
	Failed                   // a permanent failure: tell the sender
	Ambiguous                // the connection ended after the final dot without an answer
)

var outcomeNames = [...]string{"done", "later", "failed", "ambiguous"}

func (o Outcome) String() string { return weir.Name(outcomeNames[:], o, "outcome") }

// A Result is what became of one recipient, and the reply of the server.
type Result struct {
	Outcome Outcome
	Code    int    // of the reply; 0: there was none
	Status  string // enhanced, such as 5.1.1; made up if the server gave none
	Text    string // of the reply, in one line, bounded; or what went wrong
	Server  string // with the port; empty if no server was asked
	Relayed bool   // Done, by a server without DSN: we answer NOTIFY=SUCCESS (RFC 3461 section 5.2.2)
}

// Enhanced codes (RFC 3463) for failures on our side or on the way.
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

// Codes of results, without a Code, for a message that the server cannot take: it has no 8BITMIME, or no SMTPUTF8.
const (
	StatusEightBit = "5.6.3"
	StatusUTF8     = "5.6.7"
)
